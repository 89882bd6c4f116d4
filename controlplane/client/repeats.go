package client

import (
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// maxRepeats is the maximum number of answers that an agent repeats.
	maxRepeats = 8192
	// maxRepeatBytes is the maximum size, in bytes, of the request and of the answer of each.
	maxRepeatBytes = 1 << 10
)

// repeats has answers to heartbeats of group members. The owner lends each for a time and recalls them all when one may have changed, so that
// an agent whose groups are stable forwards one heartbeat of several. Safe for concurrent use.
type repeats struct {
	mu struct {
		sync.Mutex
		answers map[string]repeated // by request
		recalls uint64              // number of recalls, and of streams that ended
	}
}

type repeated struct {
	body  []byte
	until time.Time
}

// repeatKey returns the key of a request, or "" if no answer to it is repeated.
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

// find returns the answer to a request if it may be given now. Otherwise, keep needs recalls with the owner's answer.
func (r *repeats) find(key string, now time.Time) (body []byte, recalls uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a, ok := r.mu.answers[key]; ok && now.Before(a.until) {
		return a.body, 0
	}
	return nil, r.mu.recalls
}

// keep keeps an answer, unless answers were recalled since find.
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

// recall drops all answers, and those on their way.
func (r *repeats) recall() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.recalls++
	r.mu.answers = nil
}
