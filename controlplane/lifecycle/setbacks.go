package lifecycle

import (
	"maps"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/metadata/id"
)

const (
	// maxFailures is how many deletions or sweeps in a row fail before a round ends: the store or the owner is away.
	maxFailures = 3
	// maxSetback is the longest pause of an item that fails.
	maxSetback = time.Hour
	// logEvery is the least time between two log lines about one item.
	logEvery = time.Hour
	// loggedKeys is the maximum number of names that one round logs.
	loggedKeys = 20
)

// setbacks are the pauses of items that failed. Only one goroutine uses them.
type setbacks[K comparable] map[K]setback

type setback struct {
	since time.Time // first failure
	pause time.Duration
	until time.Time
	// logged is the time of the last log line, zero if there is none.
	logged time.Time
}

func (s setbacks[K]) waits(k K, now time.Time) bool { return now.Before(s[k].until) }

// note doubles the pause of k, from first on.
func (s setbacks[K]) note(k K, now time.Time, first time.Duration) {
	b, again := s[k]
	if !again {
		b.since = now
	}
	b.pause = min(max(2*b.pause, first), maxSetback)
	b.until = now.Add(b.pause)
	s[k] = b
}

// logDue reports whether a log line about k is due. If so, it notes the line as written.
func (s setbacks[K]) logDue(k K, now time.Time) bool {
	b := s[k]
	if now.Sub(b.logged) < logEvery {
		return false
	}
	b.logged = now
	s[k] = b
	return true
}

func (s setbacks[K]) clear(k K) { delete(s, k) }

// retain drops all items but those that exist.
func (s setbacks[K]) retain(exists func(K) bool) {
	maps.DeleteFunc(s, func(k K, _ setback) bool { return !exists(k) })
}

// oldest returns the time since the first failure of the item that has failed for longest, 0 if there is none.
func (s setbacks[K]) oldest(now time.Time) (age time.Duration) {
	for _, b := range s {
		age = max(age, now.Sub(b.since))
	}
	return age
}

// logRefused logs a bundle whose object an agent did not delete.
func (l *Lifecycle) logRefused(b id.Bundle, err error) {
	l.cfg.Log.Warn("object cannot be deleted, it is tried again", zap.Stringer("bundle", b), zap.Error(err),
		zap.String("check", "legal hold or retention lock of the object; permission of agents with the jobs role to delete bundles (docs/setup.md)"))
}
