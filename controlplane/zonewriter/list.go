package zonewriter

import (
	"cmp"
	"slices"
	"time"

	"github.com/freshet-io/freshet/metadata/id"
)

// Info says what one agent writes, for operators.
type Info struct {
	Session id.Session
	Zone    string
	Rate    float64       // bytes per second that its clients send, smoothed
	Silence time.Duration // since it last said its load; -1: it never did
	// Place and Share are what the plan has; zero while the zone has none, or the agent has just come.
	Place Place
	Share float64
}

// infos gives the agents that may write, by zone and session.
func (t *Tenure) infos() []Info {
	now := time.Now()
	t.mu.Lock()
	all := make([]Info, 0, len(t.mu.members))
	for session, m := range t.mu.members {
		info := Info{Session: session, Zone: m.zone, Rate: m.rate, Silence: -1}
		if !m.heard.IsZero() {
			info.Silence = now.Sub(m.heard)
		}
		if plan := t.mu.plans[m.zone]; plan.Of[session] != (Place{}) {
			info.Place, info.Share = plan.Of[session], plan.Share
		}
		all = append(all, info)
	}
	t.mu.Unlock()
	slices.SortFunc(all, func(a, b Info) int {
		return cmp.Or(cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.Session, b.Session))
	})
	return all
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
