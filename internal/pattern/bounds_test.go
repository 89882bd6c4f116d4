package pattern_test

import (
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/pattern"
)

// MaxJobs unfinished jobs keep their patterns, so a pattern must be small.
func TestPattern_CompiledPatternIsSmall(t *testing.T) {
	for _, source := range []string{strings.Repeat(`\pL{1000}`, 9), strings.Repeat(`(?i:[^\x{3}]){1000}`, 9), strings.Repeat("(?:a|b|a?){90}", 18)} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		began := time.Now()
		p, err := pattern.Compile(source)
		took := time.Since(began)
		require.NoError(t, err)
		runtime.GC()
		runtime.ReadMemStats(&after)
		kept := int64(after.HeapAlloc) - int64(before.HeapAlloc)
		t.Logf("%.20s: %d KiB kept, %d KiB allocated, %s", source, kept>>10, (after.TotalAlloc-before.TotalAlloc)>>10, took)
		runtime.KeepAlive(p)
		if kept > 4<<20 {
			t.Errorf("%.20s: a pattern keeps %d MiB; %d jobs keep %d GiB", source, kept>>20, pattern.MaxJobs, kept*pattern.MaxJobs>>30)
		}
	}
}

// A job that needs two turns ends, though fresh jobs keep coming.
func TestPattern_UnfinishedJobIsNotStarvedByFreshOnes(t *testing.T) {
	var q pattern.Queue
	n := 0
	names := func(yield func(string) bool) {
		for ; n < 12; n++ {
			time.Sleep(2 * time.Millisecond) // sleeps: as a large catalogue takes time
			if !yield("b") {
				return
			}
		}
	}
	var stop atomic.Bool
	defer stop.Store(true)
	var feed func([]string, error)
	feed = func([]string, error) { // one client with a request in flight on each of 64 connections
		if !stop.Load() {
			_ = q.Match(t.Context(), "client", "a", slices.Values([]string{"a"}), feed)
		}
	}
	done := make(chan struct{})
	require.NoError(t, q.Match(t.Context(), "client", "b", names, func([]string, error) { close(done) }))
	for range 64 {
		feed(nil, nil)
	}
	<-done
}

// Folding ranges of characters is what takes time in Compile.
func TestCompile_BoundsFoldedClasses(t *testing.T) {
	for source, taken := range map[string]bool{
		"(?i)" + strings.Repeat(`[b-\x{10fff0}]`, 67):       false,
		"(?i)" + strings.Repeat(`[b-\x{10fff0}]`, 10):       true,
		"(?i)[" + strings.Repeat(`b-\x{10fff0}`, 80) + "]":  false,
		"(?i)" + strings.Repeat(`[^b]`, 255):                false,
		"(?s-i:(?mi)" + strings.Repeat(`\PL\PN`, 100) + ")": false,
		strings.Repeat(`[^b]`, 255):                         true,
		"(?i)orders-[a-z]+-eu-[0-9]{4}":                     true,
	} {
		began := time.Now()
		_, err := pattern.Compile(source)
		t.Logf("%.30s: %s", source, time.Since(began))
		require.Equal(t, taken, err == nil, "%s: %v", source, err)
	}
}

// Compile keeps the meaning of flags and quotes.
func TestPattern_CompileKeepsTheMeaning(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	atoms := []string{"a", "b", ".", "[ab]", "[^a]", `\Qa.b\E`, "(?i)a", "(?s).", "(?m)^", "(?m)$", "^", "$", "(?U)a*", "(?-i:B)", "(?i:k)", `\b`, `\B`, "K", "ſ", `\n`, "a*", "b+?", "(a|b)", "(?:ab|b)", "|", "a{2}", "(?:a{0,2}){2}", `\z`, `\A`, "()", "(?s:.)", `\x{17f}`, "[[:alpha:]]", `\D`}
	names := []string{"", "a", "b", "ab", "A", "B", "k", "K", "K", "s", "ſ", "\n", "a\n", "a.b", "aa", "ba", "aab", "ab\nab"}
	for range 1500 {
		var b strings.Builder
		for range 1 + r.IntN(5) {
			b.WriteString(atoms[r.IntN(len(atoms))])
		}
		source := b.String()
		want, err := regexp.Compile(`\A(?:` + source + `)\z`)
		p, err2 := pattern.Compile(source)
		require.Equal(t, err == nil, err2 == nil, "%q: %v, %v", source, err, err2)
		if err != nil {
			continue
		}
		for _, name := range names {
			require.Equal(t, want.MatchString(name), p.Match(name), "%q %q", source, name)
		}
	}
}
