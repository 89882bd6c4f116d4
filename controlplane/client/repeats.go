package client

import (
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// maxRepeats is the maximum number of answers in repeats.
	maxRepeats = 8192
	// maxRepeatBytes is the maximum size, in bytes, of each answer, and of its request with the principal.
	maxRepeatBytes = 1 << 10
)

// repeats is a cache of the owner's answers to heartbeats of group members. Each answer expires (ForwardAnswer.repeat_ms), and the owner recalls
// all of them when one may have changed. With Kafka's default intervals, an agent forwards every fourth heartbeat of a member while its group is
// stable. Safe for concurrent use.
type repeats struct {
	mu struct {
		sync.Mutex
		answers map[string]repeated // by repeatKey
		recalls uint64              // number of calls of recall
	}
}

type repeated struct {
	body  []byte
	until time.Time
}

// repeatKey returns the key of a request in the cache, or "" if its answer is never cached.
func repeatKey(f *Forward) string {
	if f.Key != int16(kmsg.Heartbeat) || len(f.Principal)+len(f.Body) > maxRepeatBytes {
		return ""
	}
	var key strings.Builder
	key.WriteString(f.Principal)
	key.WriteByte(0)
	key.WriteByte(byte(f.Version))
	key.Write(f.Body)
	return key.String()
}

// find returns the cached answer to a request. If there is none, body is nil, and the caller passes recalls to keep, with the owner's answer. expired
// reports whether the cache has an answer that has expired.
func (r *repeats) find(key string, now time.Time) (body []byte, expired bool, recalls uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, known := r.mu.answers[key]
	if known && now.Before(a.until) {
		return a.body, false, 0
	}
	return nil, known, r.mu.recalls
}

// keep caches an answer, unless recall was called since find. At maxRepeats it drops the expired answers, or all if none has expired.
func (r *repeats) keep(key string, recalls uint64, body []byte, until time.Time) {
	if len(body) > maxRepeatBytes {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.recalls != recalls {
		return
	}
	if len(r.mu.answers) >= maxRepeats {
		now := time.Now()
		maps.DeleteFunc(r.mu.answers, func(_ string, a repeated) bool { return !now.Before(a.until) })
		if len(r.mu.answers) >= maxRepeats {
			clear(r.mu.answers)
		}
	}
	if r.mu.answers == nil {
		r.mu.answers = map[string]repeated{}
	}
	r.mu.answers[key] = repeated{body: body, until: until}
}

// recall drops all answers. keep then ignores the answers to requests in flight.
func (r *repeats) recall() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.recalls++
	r.mu.answers = nil
}
