package zonewriter

import (
	"cmp"
	"slices"
	"time"

	"github.com/freshet-io/freshet/metadata/id"
)

// Info says what one agent writes, for operators.
type Info struct {
	Session id.Session `json:"session"`
	Zone    string     `json:"zone"`
	Peer    string     `json:"peer_address,omitempty"`
	Rate    float64    `json:"produce_bytes_per_second"` // that its clients send, smoothed
	Silence *float64   `json:"silence_seconds"`          // since it last said its load; nil: it never did
	Kind    Kind       `json:"writes"`                   // 0 while the zone has no plan, or the agent has just come
	Writer  id.Session `json:"writer"`                   // of its batches; 0 likewise
	Share   float64    `json:"put_share"`                // of the zone's PUT budget, for what it writes
}

// infos gives the agents that may write, by zone and session.
func (t *Tenure) infos() []Info {
	now := time.Now()
	recent := t.loads.Recent(now) // may be later than what the last round has seen
	t.mu.Lock()
	all := make([]Info, 0, len(t.mu.members))
	for session, m := range t.mu.members {
		info := Info{Session: session, Zone: m.zone, Peer: m.peer, Rate: m.rate}
		if at := later(m.heard, recent[session].Heard); !at.IsZero() {
			silence := now.Sub(at).Seconds()
			info.Silence = &silence
		}
		plan := t.mu.plans[m.zone]
		if place, ok := plan.Of[session]; ok {
			info.Kind, info.Writer, info.Share = place.Kind, place.Writer, plan.Share
		}
		all = append(all, info)
	}
	t.mu.Unlock()
	slices.SortFunc(all, func(a, b Info) int {
		return cmp.Or(cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.Session, b.Session))
	})
	return all
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// String names a kind.
func (k Kind) String() string {
	switch k {
	case Apart:
		return "apart"
	case Hands:
		return "hands over"
	case Writes:
		return "writes"
	case Fills:
		return "fills bundles"
	default:
		return ""
	}
}

// MarshalText names a kind in JSON.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }
