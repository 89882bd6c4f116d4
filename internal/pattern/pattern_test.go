package pattern_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/pattern"
)

func TestCompile_MatchesWholeNames(t *testing.T) {
	for source, names := range map[string]struct{ matched, others []string }{
		"a|ab":      {[]string{"a", "ab"}, []string{"aba", "b", ""}},
		"orders-.*": {[]string{"orders-", "orders-eu"}, []string{"my-orders-eu"}},
		"(?i)x":     {[]string{"x", "X"}, []string{"xx"}},
		`a|\Q(b`:    {[]string{"a", "(b"}, []string{"b"}},
		"^a$":       {[]string{"a"}, []string{"a\n"}},
		"":          {[]string{""}, []string{"a"}},
	} {
		p, err := pattern.Compile(source)
		require.NoError(t, err, source)
		for _, name := range names.matched {
			require.True(t, p.Match(name), "%s: %q", source, name)
		}
		for _, name := range names.others {
			require.False(t, p.Match(name), "%s: %q", source, name)
		}
	}
	require.False(t, pattern.Pattern{}.Match(""))
}

func TestCompile_Refuses(t *testing.T) {
	for source, want := range map[string]string{
		"a)|(b":                                     "unexpected )",
		"[a":                                        "missing closing ]",
		strings.Repeat("a", 1025):                   "1025 bytes",
		strings.Repeat("a{1000}", 11):               "more than 10000 instructions",
		strings.Repeat("[a-z0-9]{0,900}", 60):       "more than 10000 instructions",
		"((a{10}){10}){11}":                         "invalid repeat count",
		strings.Repeat("(a{10}){100}", 20):          "more than 10000 instructions",
		strings.Repeat("(?:(?:bb|ccc){9,}){9}", 48): "more than 10000 instructions",
	} {
		_, err := pattern.Compile(source)
		require.ErrorContains(t, err, want, source)
	}
	atTheBound := strings.Repeat("a{1000}", 9)
	p, err := pattern.Compile(atTheBound)
	require.NoError(t, err)
	require.True(t, p.Match(strings.Repeat("a", 9000)))
	_, err = pattern.Compile(strings.Repeat("a", pattern.MaxBytes))
	require.NoError(t, err)
}

// Size bounds the program of every expression, also of random ones.
func TestCompile_Size(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var draw func(depth int) string
	draw = func(depth int) string {
		if depth == 0 {
			return []string{"a", ".", "[a-f]", `\pL`, "^", `\b`, "abc", ""}[r.IntN(8)]
		}
		sub := draw(depth - 1)
		switch r.IntN(8) {
		case 0:
			return "(" + sub + ")"
		case 1:
			return "(?:" + sub + ")*"
		case 2:
			return "(?:" + sub + ")+?"
		case 3:
			return fmt.Sprintf("(?:%s){%d,%d}", sub, r.IntN(3), 3+r.IntN(4))
		case 4:
			return fmt.Sprintf("(?:%s){%d,}", sub, r.IntN(5))
		case 5:
			return sub + "|" + draw(depth-1)
		case 6:
			return "(?i:" + sub + ")?"
		default:
			return sub + draw(depth-1)
		}
	}
	compiled := 0
	for range 400 {
		source := draw(1 + r.IntN(5))
		p, err := pattern.Compile(source)
		if err != nil {
			continue
		}
		compiled++
		parsed, err := syntax.Parse(source, syntax.Perl)
		require.NoError(t, err)
		program, err := syntax.Compile(parsed.Simplify())
		require.NoError(t, err)
		require.LessOrEqual(t, len(program.Inst), p.Size()+2, source) // one fails, one matches
		name := []string{"", "a", "abc", "aaaa", "fa"}[r.IntN(5)]
		require.Equal(t, regexp.MustCompile(`\A(?:`+source+`)\z`).MatchString(name), p.Match(name))
	}
	require.Greater(t, compiled, 300)
}

// slow takes milliseconds for each of longNames.
var slow = strings.Repeat("(?:a|b|a?){30}", 8) + "x"

// longNames yields names until stop is set.
func longNames(stop *atomic.Bool) iter.Seq[string] {
	return func(yield func(string) bool) {
		for !stop.Load() && yield(strings.Repeat("a", 249)) {
		}
	}
}

func TestQueue_OthersOvertakeASlowJob(t *testing.T) {
	var q pattern.Queue
	var stop atomic.Bool
	ended := make(chan error, 1)
	require.NoError(t, q.Match(t.Context(), "client", slow, longNames(&stop), func(_ []string, err error) { ended <- err }))
	for range 20 {
		matched := make(chan []string)
		require.NoError(t, q.Match(t.Context(), "client", "b.?", slices.Values([]string{"a", "b", "bc", "bcd"}), func(m []string, err error) {
			require.NoError(t, err)
			matched <- m
		}))
		require.Equal(t, []string{"b", "bc"}, <-matched)
	}
	require.Empty(t, ended)
	stop.Store(true)
	require.NoError(t, <-ended)
}

func TestQueue_EndsASlowJob(t *testing.T) {
	q := pattern.NewQueue(100 * time.Millisecond)
	ended := make(chan error, 1)
	require.NoError(t, q.Match(t.Context(), "client", slow, longNames(new(atomic.Bool)), func(_ []string, err error) { ended <- err }))
	require.ErrorIs(t, <-ended, pattern.ErrTooSlow)
}

func TestQueue_Bound(t *testing.T) {
	var q pattern.Queue
	proceed, done := make(chan struct{}), make(chan []string, pattern.MaxJobs)
	held := func(yield func(string) bool) {
		<-proceed
		yield("a")
	}
	take := func(m []string, _ error) { done <- m }
	for range pattern.MaxJobs {
		require.NoError(t, q.Match(t.Context(), "client", "a", held, take))
	}
	require.ErrorIs(t, q.Match(t.Context(), "client", "a", held, take), pattern.ErrBusy)
	close(proceed)
	for range pattern.MaxJobs {
		require.Equal(t, []string{"a"}, <-done)
	}
	require.NoError(t, q.Match(t.Context(), "client", "[", held, func(_ []string, err error) {
		require.Error(t, err)
		done <- nil
	}))
	require.Nil(t, <-done)
	require.NoError(t, q.Match(t.Context(), "client", "b", slices.Values([]string{"a", "b", "c"}), take))
	require.Equal(t, []string{"b"}, <-done)
}

// One client's jobs leave room for others: first the unfinished ones, else the newest ones, end for them. Clients take turns.
func TestQueue_LeavesRoomForOtherClients(t *testing.T) {
	var q pattern.Queue
	proceed, ended := make(chan struct{}), make(chan error, pattern.MaxJobs)
	held := func(yield func(string) bool) {
		<-proceed
		yield("a")
	}
	hostile := func() error {
		return q.Match(t.Context(), "hostile", "a", held, func(_ []string, err error) { ended <- err })
	}
	for range pattern.MaxJobs {
		require.NoError(t, hostile())
	}
	require.ErrorIs(t, hostile(), pattern.ErrBusy)
	done := make(chan int, 2)
	for range 2 {
		require.NoError(t, q.Match(t.Context(), "other", "a", slices.Values([]string{"a"}), func(m []string, _ error) { done <- len(ended) }))
	}
	close(proceed)
	require.LessOrEqual(t, <-done, 4, "hostile jobs before it, two of which made room")
	require.LessOrEqual(t, <-done, 5)
	busy := 0
	for range pattern.MaxJobs {
		if errors.Is(<-ended, pattern.ErrBusy) {
			busy++
		}
	}
	require.Equal(t, 2, busy)
}

// At the bound, the unfinished job that has run longest ends.
func TestQueue_EndsTheLongestJob(t *testing.T) {
	var q pattern.Queue
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, pattern.MaxJobs)
	var stop atomic.Bool
	require.NoError(t, q.Match(ctx, "hostile", slow, longNames(&stop), func(_ []string, err error) { ended <- err }))
	proceed, entered := make(chan struct{}), make(chan struct{})
	held := func(yield func(string) bool) {
		close(entered)
		<-proceed
		yield("a")
	}
	require.NoError(t, q.Match(ctx, "hostile", "a", held, func([]string, error) {}))
	<-entered // so the first one is unfinished
	for range pattern.MaxJobs - 2 {
		require.NoError(t, q.Match(ctx, "hostile", "a", slices.Values([]string{"a"}), func([]string, error) {}))
	}
	require.NoError(t, q.Match(ctx, "hostile", "b", slices.Values([]string{"a"}), func([]string, error) {}))
	close(proceed)
	require.ErrorIs(t, <-ended, pattern.ErrTooSlow)
	cancel()
}
