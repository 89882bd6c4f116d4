package pattern_test

import (
	"fmt"
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
func TestHostile_CompiledPatternIsSmall(t *testing.T) {
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

// A cheap expression ends soon, though hostile ones were queued before it.
func TestHostile_CheapExpressionIsNotStarvedByFreshOnes(t *testing.T) {
	var q pattern.Queue
	ended := func([]string, error) {}
	for i := range 10 {
		source := "(?i)" + strings.Repeat(`[b-\x{10fff0}]`, 67) + fmt.Sprint(i)
		require.NoError(t, q.Match(source, slices.Values([]string{strings.Repeat("a", 249)}), ended))
	}
	began := time.Now()
	done := make(chan time.Duration, 1)
	require.NoError(t, q.Match("b", slices.Values([]string{"b"}), func([]string, error) { done <- time.Since(began) }))
	took := <-done
	t.Logf("a cheap expression waited for %s behind 10 fresh ones", took)
	require.Less(t, took, 5*time.Second)
}

// A job that needs two turns ends, though fresh jobs keep coming.
func TestHostile_UnfinishedJobIsNotStarvedByFreshOnes(t *testing.T) {
	var q pattern.Queue
	n := 0
	names := func(yield func(string) bool) {
		for ; n < 12; n++ {
			time.Sleep(2 * time.Millisecond) // a large catalogue
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
			_ = q.Match("a", slices.Values([]string{"a"}), feed)
		}
	}
	done := make(chan struct{})
	require.NoError(t, q.Match("b", names, func([]string, error) { close(done) }))
	for range 64 {
		feed(nil, nil)
	}
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Fatal("a job of 25 ms has not ended after 5 s")
	}
}

// One match is bounded for transactional IDs too, which have up to 32,767 bytes.
func TestHostile_OneMatchOfALongNameIsBounded(t *testing.T) {
	p, err := pattern.Compile(slow90)
	require.NoError(t, err)
	began := time.Now()
	p.Match(strings.Repeat("a", 32_000))
	took := time.Since(began)
	t.Logf("one match took %s", took)
	require.Less(t, took, 500*time.Millisecond)
}

var slow90 = strings.Repeat("(?:a*b?){600}", 2) + strings.Repeat("(?:a*b?){400}", 1) + "x"

// Compile says that it can take 0.2 s.
func TestHostile_CompileIsBounded(t *testing.T) {
	for _, source := range []string{
		"(?i)" + strings.Repeat(`[b-\x{10fff0}]`, 67),
		"(?i)" + strings.Repeat(`[b-\x{10fff0}]`, 10),
		"(?i)[" + strings.Repeat(`b-\x{10fff0}`, 80) + "]",
		"(?i)" + strings.Repeat(`[^b]`, 255),
		"(?i)[" + strings.Repeat(`\PL\PN`, 100) + "]",
		"(?i)[" + strings.Repeat(`b-\x{1e943}`, 80) + "]",
	} {
		began := time.Now()
		_, err := pattern.Compile(source)
		took := time.Since(began)
		t.Logf("%.30s: %d bytes, %s, %v", source, len(source), took, err)
		if took > time.Second {
			t.Errorf("%.30s: compiled for %s", source, took)
		}
	}
}

// Compile keeps the meaning of flags and quotes.
func TestHostile_CompileKeepsTheMeaning(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	atoms := []string{"a", "b", ".", "[ab]", "[^a]", `\Qa.b\E`, "(?i)a", "(?s).", "(?m)^", "(?m)$", "^", "$", "(?U)a*", "(?-i:B)", "(?i:k)", `\b`, `\B`, "K", "ſ", `\n`, "a*", "b+?", "(a|b)", "(?:ab|b)", "|", "a{2}", "(?:a{0,2}){2}", `\z`, `\A`, "()", "(?s:.)", `\x{17f}`, "[[:alpha:]]", `\D`}
	names := []string{"", "a", "b", "ab", "A", "B", "k", "K", "K", "s", "ſ", "\n", "a\n", "a.b", "aa", "ba", "aab", "ab\nab"}
	for range 40_000 {
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
