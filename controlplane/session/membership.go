package session

import (
	"time"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata"
)

// The membership goes whole to every stream, so the cost of a change is the product of members and streams. A second change shortly after
// another one waits, and one message has both. So a burst of n agents that join costs each stream a few messages instead of n.
const (
	// membershipCost is the pause after a membership for each pair of an agent and a stream, about ten times what the pair costs.
	membershipCost = 4 * time.Microsecond
	// fewStreams is the number of streams up to which there is no pause.
	fewStreams = 32
	// maxMembershipPause bounds the pause. It is below the time after which a lost agent is hidden.
	maxMembershipPause = hideAfter / 4
)

// stale is a change of the membership that the streams have not been sent yet.
type stale struct {
	index uint64      // of the first such change; 0 for none
	timer *time.Timer // sends it; nil for none
	last  time.Time   // when a membership was sent
}

// membershipPause returns the pause between two memberships. Called with mu held.
func (t *tenure) membershipPause() time.Duration {
	streams := len(t.mu.agents)
	if streams <= fewStreams {
		return 0
	}
	return min(time.Duration(streams*streams)*membershipCost, maxMembershipPause)
}

// membershipDue reports whether the streams are sent a change of the membership now. If not, they are sent it after the pause. Effects of
// the same index that belong together, such as new partitions and their leaders, are sent now. The caller calls membershipSent while it sends them:
// until then, stamps wait (I4).
func (t *tenure) membershipDue(index uint64, fx *metadata.Effects) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	due := t.mu.stale.last.Add(t.membershipPause())
	if len(fx.Topics) == 0 && due.After(now) {
		if t.mu.stale.index == 0 {
			t.mu.stale.index = index
			t.mu.stale.timer = time.AfterFunc(due.Sub(now), func() { t.spawn(t.sendMembership) })
		}
		return false
	}
	return true
}

// membershipSent notes that all streams have the newest membership, or are about to. Called with mu held.
func (t *tenure) membershipSent(now time.Time) {
	if t.mu.stale.timer != nil {
		t.mu.stale.timer.Stop()
	}
	t.mu.stale = stale{last: now}
}

// sendMembership sends the streams the membership, and the stamps that waited for it.
func (t *tenure) sendMembership() {
	_, _ = t.owner.Read(func(s *metadata.State) { // an error ends the tenure
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.mu.stale.index == 0 {
			return
		}
		t.membershipSent(time.Now())
		// The state may be ahead of the effects that were announced.
		item := catalogueItem(&api.Catalogue{Index: t.mu.announced, Membership: membership(s)})
		for _, a := range t.mu.agents {
			if s.Index() > a.since {
				a.out.push(item)
			}
		}
		if t.writers != nil {
			t.writers.Members(s)
		}
		t.sendStamps()
	})
}

// told returns the index up to which the streams have been sent all changes. Called with mu held.
func (t *tenure) told() uint64 {
	if t.mu.stale.index != 0 {
		return min(t.mu.announced, t.mu.stale.index-1)
	}
	return t.mu.announced
}

// sendStamps sends the stamps whose changes have been sent. Called with mu held.
func (t *tenure) sendStamps() {
	told := t.told()
	for a, st := range t.mu.stamps {
		if st.index <= told {
			a.sendStamp(st)
			delete(t.mu.stamps, a)
		}
	}
}
