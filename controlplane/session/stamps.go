package session

import (
	"time"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata"
)

// stamp answers a probe: everything committed before the owner read the probe is at or below index.
type stamp struct{ token, index uint64 }

// stamp answers a probe with the index of a fenced read, behind everything announced up to that index (I4).
func (a *agent) stamp(probe *api.Probe) {
	index, err := a.t.owner.Read(func(*metadata.State) {})
	if err != nil {
		return // not the owner any more: the stream is about to end
	}
	st := stamp{token: probe.Token, index: index}
	a.t.mu.Lock()
	defer a.t.mu.Unlock()
	if open := a.t.mu.sessions[a.session]; open != nil && a.t.mu.agents[a.session] == a {
		rests := restOf(probe)
		if rests < open.rests {
			a.t.looks.Wake() // they may have to come sooner
		}
		open.rests = rests
	}
	if a.t.told() < index {
		a.t.mu.stamps[a] = st // tokens rise: a newer one answers an older one's probe too
		return
	}
	delete(a.t.mu.stamps, a)
	a.sendStamp(st)
}

// restOf returns the maximum time until the agent's next probe, as told with this one. It is above toldRest for idle agents.
func restOf(probe *api.Probe) time.Duration {
	return min(time.Duration(probe.NextMs)*time.Millisecond, maxRest)
}

// sendStamp appends a stamp to what the agent is sent. Called with tenure.mu held.
func (a *agent) sendStamp(st stamp) {
	a.t.metrics.stamps.Inc()
	a.out.push(&api.OwnerItem{Item: &api.OwnerItem_Stamp{Stamp: &api.Stamp{
		Token: st.token, Index: st.index, NowMs: time.Now().UnixMilli(), SteadyMs: a.t.steady(),
	}}})
}
