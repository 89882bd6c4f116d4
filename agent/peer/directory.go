package peer

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/agent/cache"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/internal/assign"
	"github.com/freshet-io/freshet/metadata/id"
)

// peer is another agent of the zone.
type peer struct {
	session id.Session
	address string // host:port
}

// directory is the zone's agents as of one snapshot of the catalogue. It does not change.
type directory struct {
	snapshot *view.Snapshot
	peers    map[id.Session]peer // the others that can be asked
	owners   []uint32            // sessions of all that may own units, this agent's among them; ascending
}

// current gives the directory of the newest snapshot.
func (z *Zone) current() *directory {
	snapshot := z.cfg.Catalogue.Load()
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.mu.directory != nil && z.mu.directory.snapshot == snapshot {
		return z.mu.directory
	}
	d := &directory{snapshot: snapshot, peers: make(map[id.Session]peer)}
	for _, m := range snapshot.Members { // in the order of sessions
		if strings.TrimSpace(m.Zone) != z.cfg.Zone || m.Peer == "" {
			continue
		}
		d.owners = append(d.owners, uint32(m.Session))
		if m.Session != snapshot.Session {
			d.peers[m.Session] = peer{m.Session, m.Peer}
		}
	}
	gone := func(session id.Session) bool {
		_, there := d.peers[session]
		return !there
	}
	maps.DeleteFunc(z.mu.evicted, func(session id.Session, _ uint32) bool { return gone(session) })
	maps.DeleteFunc(z.mu.out, func(session id.Session, _ time.Time) bool { return gone(session) })
	z.mu.directory = d
	return d
}

// ownedTogether is how much of an object has one owner, so that what is read ahead by one GET still is.
const ownedTogether = 32 << 20

// owner is the agent that reads a unit for all of the zone, as this agent sees it: 0, or its own session, is this agent.
// An agent that is left out owns nothing.
func (z *Zone) owner(d *directory, bundle id.Bundle, u cache.Unit) id.Session {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.ownerOf(d, bundle, u)
}

// toAsk is the owner of a unit for a caller who asks it now.
func (z *Zone) toAsk(d *directory, bundle id.Bundle, u cache.Unit) id.Session {
	z.mu.Lock()
	defer z.mu.Unlock()
	session := z.ownerOf(d, bundle, u)
	z.tries(session)
	return session
}

// ownerOf is owner with the lock held.
func (z *Zone) ownerOf(d *directory, bundle id.Bundle, u cache.Unit) id.Session {
	owners := z.asked(d)
	if len(owners) == 0 {
		return 0
	}
	name := binary.BigEndian.AppendUint64(make([]byte, 0, 12), uint64(bundle))
	name = binary.BigEndian.AppendUint32(name, u.First/ownedTogether)
	return id.Session(owners[assign.Key(ownerKind, string(name), owners)])
}

// ownerKind tells the hash of units from those of other names.
const ownerKind = 'u'

// asked gives the owners without those left out. The lock is held.
func (z *Zone) asked(d *directory) []uint32 {
	if len(z.mu.out) == 0 {
		return d.owners
	}
	return slices.DeleteFunc(slices.Clone(d.owners), func(s uint32) bool { return z.isOut(id.Session(s)) })
}

// writer is the agent that wrote a bundle, if it is another one that lives and may have it in memory, for a caller who asks
// it now.
func (z *Zone) writer(d *directory, a *cache.Ask) (peer, bool) {
	name := a.Bundle.Submission()
	p, ok := d.peers[name.Session]
	if !ok {
		return peer{}, false
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.isOut(p.session) {
		return peer{}, false
	}
	if evicted, some := z.mu.evicted[p.session]; some && name.N <= evicted {
		return peer{}, false
	}
	z.tries(p.session)
	return p, true
}

// noteEvicted remembers that a writer has a bundle in memory no more.
func (z *Zone) noteEvicted(bundle id.Bundle) {
	name := bundle.Submission()
	z.mu.Lock()
	defer z.mu.Unlock()
	z.mu.evicted[name.Session] = max(z.mu.evicted[name.Session], name.N)
}

// leaveOut does not ask an agent for a while.
func (z *Zone) leaveOut(p peer, reason string, err error) {
	z.mu.Lock()
	_, already := z.mu.out[p.session]
	z.mu.out[p.session] = time.Now().Add(z.cfg.LeaveOut)
	z.mu.Unlock()
	if !already { // once in a while for each agent, however many requests fail together
		z.cfg.Log.Warn("an agent of the zone is left out of the shared cache for a while", zap.Uint32("session", uint32(p.session)),
			zap.String("address", p.address), zap.String("reason", reason), zap.Error(err))
	}
}

// welcome asks an agent again that has answered.
func (z *Zone) welcome(p peer) {
	z.mu.Lock()
	defer z.mu.Unlock()
	delete(z.mu.out, p.session)
}

// isOut tells whether an agent is not to be asked. The lock is held.
func (z *Zone) isOut(session id.Session) bool {
	until, out := z.mu.out[session]
	return out && time.Now().Before(until)
}

// tries notes that an agent is asked. If it was left out for long enough, that one request finds out whether it answers, and
// the others go on without it until it has. The lock is held.
func (z *Zone) tries(session id.Session) {
	if _, out := z.mu.out[session]; out {
		z.mu.out[session] = time.Now().Add(z.cfg.SilenceTimeout)
	}
}

// leftOut is how many agents are not asked.
func (z *Zone) leftOut() int {
	z.mu.Lock()
	defer z.mu.Unlock()
	return len(z.mu.out)
}
