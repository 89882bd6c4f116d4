package fault

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/freshet-io/freshet/objstore"
)

// effect is what happens to a request besides delays.
type effect uint8

const (
	effectNone effect = iota
	effectThrottle
	effectFail
	effectRefuse
	effectFull
	effectConflict
	effectNotFound
	effectUnknownBefore
	effectUnknownAfter
	effectStall
	effectStallAfter
	effectCorrupt
	effectTruncate
)

// effectNames is the rule language's list of effects.
var effectNames = map[string]effect{
	"throttle":               effectThrottle,
	"fail":                   effectFail,
	"refuse":                 effectRefuse,
	"full":                   effectFull,
	"conflict":               effectConflict,
	"not-found":              effectNotFound,
	"outcome-unknown-before": effectUnknownBefore,
	"outcome-unknown-after":  effectUnknownAfter,
	"stall":                  effectStall,
	"stall-after":            effectStallAfter,
	"corrupt":                effectCorrupt,
	"truncate":               effectTruncate,
}

// Rule is one rule of a bucket, as parsed.
type Rule struct {
	text string

	anyOp       bool
	op          objstore.Op
	keyContains string
	keyPrefix   string
	keyExact    string

	nth, every, times int64   // 0: not given
	p                 float64 // probability; 1 if not given

	effect effect
	delay  time.Duration // before the request
	slow   int64         // bytes per second of a get's body; 0: not slowed

	mu       sync.Mutex
	matched  int64 // requests that the rule's operation and key fit
	hits     int64 // of them affected
	released chan struct{}
	rng      *rand.Rand
}

// Parse reads one rule (see the package comment for the language).
func Parse(text string) (*Rule, error) {
	words := strings.Fields(text)
	if len(words) < 2 {
		return nil, fmt.Errorf("fault rule %q: want an operation and an effect", text)
	}
	r := &Rule{text: strings.Join(words, " "), p: 1, released: make(chan struct{})}
	if r.anyOp = words[0] == "any"; !r.anyOp {
		op, err := objstore.ParseOp(words[0])
		if err != nil {
			return nil, fmt.Errorf("fault rule %q: %w", text, err)
		}
		r.op = op
	}
	for _, word := range words[1:] {
		if err := r.parseWord(word); err != nil {
			return nil, fmt.Errorf("fault rule %q: %w", text, err)
		}
	}
	return r, r.check()
}

func (r *Rule) parseWord(word string) error {
	if e, ok := effectNames[word]; ok {
		if r.effect != effectNone {
			return fmt.Errorf("a second effect %q", word)
		}
		r.effect = e
		return nil
	}
	at := strings.IndexAny(word, "=~^")
	if at < 0 {
		return fmt.Errorf("unknown word %q", word)
	}
	name, value := word[:at+1], word[at+1:]
	var err error
	switch name {
	case "key~":
		r.keyContains = value
	case "key^":
		r.keyPrefix = value
	case "key=":
		r.keyExact = value
	case "nth=":
		r.nth, err = parseCount(value)
	case "every=":
		r.every, err = parseCount(value)
	case "times=":
		r.times, err = parseCount(value)
	case "p=":
		r.p, err = strconv.ParseFloat(value, 64)
	case "delay=":
		r.delay, err = time.ParseDuration(value)
	case "slow=":
		r.slow, err = parseCount(value)
	default:
		err = fmt.Errorf("unknown word %q", word)
	}
	return err
}

func parseCount(value string) (int64, error) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err == nil && n < 1 {
		err = fmt.Errorf("%d is not positive", n)
	}
	return n, err
}

func (r *Rule) check() error {
	onlyGet := r.effect == effectCorrupt || r.effect == effectTruncate || r.slow > 0
	switch {
	case r.effect == effectNone && r.delay == 0 && r.slow == 0:
		return fmt.Errorf("fault rule %q: no effect", r.text)
	case onlyGet && (r.anyOp || r.op != objstore.OpGet):
		return fmt.Errorf("fault rule %q: this effect is for get alone", r.text)
	case r.effect == effectRefuse && (r.anyOp || r.op != objstore.OpDelete):
		return fmt.Errorf("fault rule %q: this effect is for delete alone", r.text)
	case r.p < 0 || r.p > 1 || r.delay < 0:
		return fmt.Errorf("fault rule %q: p is 0 to 1, delays are not negative", r.text)
	}
	return nil
}

// String gives the rule's text.
func (r *Rule) String() string { return r.text }

// Hits is how many requests the rule has affected.
func (r *Rule) Hits() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int(r.hits)
}

// Release ends the rule's stalls: those under way go on, later ones do not stall.
func (r *Rule) Release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.released:
	default:
		close(r.released)
	}
}

// takes tells whether the rule affects this request, and counts it.
func (r *Rule) takes(op objstore.Op, keys []string) bool {
	if !r.anyOp && r.op != op || !r.fitsAny(keys) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.matched++
	switch {
	case r.nth > 0 && r.matched != r.nth,
		r.every > 0 && r.matched%r.every != 0,
		r.times > 0 && r.hits >= r.times,
		r.p < 1 && r.rng.Float64() >= r.p:
		return false
	}
	r.hits++
	return true
}

func (r *Rule) fitsAny(keys []string) bool {
	if r.keyContains == "" && r.keyPrefix == "" && r.keyExact == "" {
		return true
	}
	return slices.ContainsFunc(keys, r.fits)
}

func (r *Rule) fits(key string) bool {
	return strings.Contains(key, r.keyContains) && strings.HasPrefix(key, r.keyPrefix) &&
		(r.keyExact == "" || r.keyExact == key)
}

// refuse deletes the keys that the rule does not fit, and returns a DeleteError of the others.
func (r *Rule) refuse(keys []string, del func([]string) error) error {
	failed := make(map[string]error)
	var others []string
	for _, key := range keys {
		if r.fits(key) {
			failed[key] = ErrInjected
		} else {
			others = append(others, key)
		}
	}
	var more *objstore.DeleteError
	if err := del(others); errors.As(err, &more) {
		maps.Copy(failed, more.Failed)
	} else if err != nil {
		return err
	}
	return objstore.NewDeleteError(failed)
}
