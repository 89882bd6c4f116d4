package session

import (
	"cmp"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// States of an AgentInfo.
const (
	AgentServes  = "serves"  // clients are sent to it
	AgentJobs    = "jobs"    // its roles take no clients
	AgentDrains  = "drains"  // it left the membership and still commits
	AgentHidden  = "hidden"  // its stream broke, and Metadata leaves it out
	AgentStopped = "stopped" // its session was closed because the agent was silent
)

// Bounds of what operators see of agents.
const (
	maxAgentInfos = 10_000           // agents in a list
	maxLapsed     = 1000             // stopped agents that the owner remembers
	lapsedMemory  = 10 * time.Minute // time for which the owner remembers a stopped agent
)

// AgentInfo describes an agent to operators. Absent figures are unknown: the agent is older, or has not reported its load lately.
type AgentInfo struct {
	Session     uint32   `json:"session"`
	Zone        string   `json:"zone"`    // "" without one
	Address     string   `json:"address"` // of its first listener
	Version     string   `json:"version"`
	State       string   `json:"state"`
	Silence     float64  `json:"silence_seconds"` // since its last sign of life, as of the list
	Uptime      *float64 `json:"uptime_seconds,omitempty"`
	Load        *float64 `json:"load,omitempty"` // share of its most used resource, 0 to 1
	Connections *uint32  `json:"connections,omitempty"`
}

// AgentList has the agents of a virtual cluster as of a time. Agents that drained and closed their session are not in it. Agents that
// stopped otherwise stay in it for ten minutes, unless an agent with a newer session has the same address.
type AgentList struct {
	Agents []AgentInfo `json:"agents"` // by zone and session
	More   int         `json:"more"`   // agents left out because the list has 10,000
	At     time.Time   `json:"-"`
}

// Agents returns the agents as this replica knows them as the owner. ok is false if this replica is not the owner.
func (c *Cluster) Agents() (list *AgentList, ok bool) {
	t := c.tenure.Load()
	if t == nil {
		return nil, false
	}
	return t.agents(time.Now()), true
}

// LastAgents returns the newest list that NoteAgents took, or nil. The end of a tenure leaves one.
func (c *Cluster) LastAgents() *AgentList { return c.agents.Load() }

// NoteAgents keeps a list for LastAgents.
func (c *Cluster) NoteAgents(list *AgentList) { c.agents.Store(list) }

// agents returns the agents of the tenure.
func (t *tenure) agents(now time.Time) *AgentList {
	all := t.agentInfos(now)
	slices.SortFunc(all, func(a, b AgentInfo) int {
		return cmp.Or(cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.Session, b.Session))
	})
	shown := min(len(all), maxAgentInfos)
	return &AgentList{Agents: all[:shown], More: len(all) - shown, At: now}
}

// agentInfos describes the open and the lapsed sessions.
func (t *tenure) agentInfos(now time.Time) []AgentInfo {
	recent := t.loads.Recent(now)
	t.mu.Lock()
	defer t.mu.Unlock()
	newest := map[string]id.Session{} // open session at each place
	for session, open := range t.mu.sessions {
		place := placeOf(&open.info)
		newest[place] = max(newest[place], session)
	}
	all := make([]AgentInfo, 0, len(t.mu.sessions)+len(t.mu.lapsed))
	for session, open := range t.mu.sessions {
		if newest[placeOf(&open.info)] == session || t.mu.agents[session] != nil {
			a := agentInfo(&open.info, open.state(), now.Sub(open.heard))
			a.report(recent[session].Load)
			all = append(all, a)
		}
	}
	for _, l := range t.mu.lapsed {
		if newest[placeOf(&l.info)] == 0 && now.Sub(l.heard) < lapsedMemory {
			all = append(all, agentInfo(&l.info, AgentStopped, now.Sub(l.heard)))
		}
	}
	return all
}

func agentInfo(info *metadata.SessionInfo, state string, silence time.Duration) AgentInfo {
	return AgentInfo{
		Session: uint32(info.ID), Zone: info.Zone, Address: sessionAddress(info), Version: info.Version, State: state,
		Silence: max(0, silence).Seconds(),
	}
}

// report adds the figures of the agent's last report; nil for none.
func (a *AgentInfo) report(l *api.Load) {
	if l == nil {
		return
	}
	used := l.Utilization()
	a.Load, a.Connections = &used, l.Connections
	if l.UptimeMs != nil {
		uptime := float64(*l.UptimeMs) / 1000
		a.Uptime = &uptime
	}
}

func (o *openSession) state() string {
	switch {
	case o.draining:
		return AgentDrains
	case o.hidden:
		return AgentHidden
	case o.serves:
		return AgentServes
	}
	return AgentJobs
}

// placeOf returns an address that only one agent has: agents behind a load balancer share those of their listeners.
func placeOf(info *metadata.SessionInfo) string { return cmp.Or(info.Peer, sessionAddress(info)) }

// sessionAddress returns the address of the agent's first listener, "" if it has none.
func sessionAddress(info *metadata.SessionInfo) string {
	for _, e := range info.Endpoints {
		return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
	}
	return ""
}

// lapsedSession is the closed session of an agent that stopped without closing it.
type lapsedSession struct {
	info  metadata.SessionInfo
	heard time.Time // last sign of life, or the time of closing if an earlier owner closed the session
}

// noteClosed keeps a session that an earlier owner closed within lapsedMemory. The state has the time of closing until the session's
// orphans are swept, which is later. Called with mu held.
func (t *tenure) noteClosed(s *metadata.State, info *metadata.SessionInfo) {
	ended, ok := s.EndedWriter(info.ID)
	if !ok {
		return
	}
	closed := time.UnixMilli(ended.EndedMs)
	if closed.After(t.began) { // the earlier owner's clock is ahead
		closed = t.began
	}
	if t.began.Sub(closed) < lapsedMemory {
		t.noteLapsed(info, closed)
	}
}

// noteLapsed keeps the closed session of an agent that stopped. Beyond maxLapsed, the oldest session makes room. Called with mu held.
func (t *tenure) noteLapsed(info *metadata.SessionInfo, heard time.Time) {
	if len(t.mu.lapsed) >= maxLapsed {
		oldest := slices.MinFunc(slices.Collect(maps.Values(t.mu.lapsed)), func(a, b lapsedSession) int { return a.heard.Compare(b.heard) })
		delete(t.mu.lapsed, oldest.info.ID)
	}
	t.mu.lapsed[info.ID] = lapsedSession{*info, heard}
}

// forgetLapsed forgets agents that stopped at the place of a newer session. Called with mu held.
func (t *tenure) forgetLapsed(newer *metadata.SessionInfo) {
	place := placeOf(newer)
	maps.DeleteFunc(t.mu.lapsed, func(_ id.Session, l lapsedSession) bool { return placeOf(&l.info) == place })
}
