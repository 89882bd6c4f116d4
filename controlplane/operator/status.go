package operator

import (
	"fmt"
	"strings"
	"time"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/session"
)

// Plane is the control plane as one replica knows it. Times are seconds, sizes bytes.
type Plane struct {
	Replica  string       `json:"replica"` // id of the replica that answers
	Replicas []Replica    `json:"replicas"`
	Etcd     []EtcdMember `json:"etcd"`
	Store    Store        `json:"object_store"`
	Findings []Finding    `json:"findings"` // faults in words; empty if all is well
}

// Status is a virtual cluster as one replica knows it, with the control plane. Findings are those of both.
type Status struct {
	VirtualCluster string `json:"virtual_cluster"`
	Owner          *Owner `json:"owner"` // null if there is none
	Plane
	// Agents are as of AgentsAge ago. AgentsAge is null if the replica has no list, because it never owned the virtual
	// cluster and the owner does not answer.
	Agents      []session.AgentInfo `json:"agents"`
	MoreAgents  int                 `json:"more_agents"` // agents left out of Agents
	AgentsAge   *float64            `json:"agents_age_seconds"`
	AgentsFault string              `json:"agents_fault,omitempty"` // why AgentsAge is null
}

// Owner is the replica that owns the virtual cluster.
type Owner struct {
	Replica string `json:"replica"`
	Address string `json:"address"`
}

// Replica is a control-plane replica. The answering replica asks the others every two seconds.
type Replica struct {
	Replica string   `json:"replica"`
	Address string   `json:"address"`
	HTTP    string   `json:"http_address,omitempty"` // "" until the first answer, of older replicas, and without --http-listen
	Version string   `json:"version,omitempty"`      // "" until the first answer, and of older replicas
	Uptime  *float64 `json:"uptime_seconds,omitempty"`
	Silence float64  `json:"silence_seconds"` // since its last answer, 0 for the answering replica
	Fault   string   `json:"fault,omitempty"` // error of the last question
	Refuses bool     `json:"-"`               // Fault is a refusal of the key of replicas
}

// EtcdMember is the answer of one etcd member.
type EtcdMember struct {
	Address string  `json:"address"`
	Leader  bool    `json:"leader"`
	Latency float64 `json:"latency_seconds"` // of the answer, with opening a connection
	Used    int64   `json:"used_bytes"`
	Allowed int64   `json:"allowed_bytes"` // 0 if the member does not report its quota (before etcd 3.6)
	Fault   string  `json:"fault,omitempty"`
}

// Store is the object store.
type Store struct {
	Location string    `json:"location"` // --bucket without secrets
	Address  string    `json:"address"`
	Fault    string    `json:"fault,omitempty"` // "" if it answered
	Since    time.Time `json:"-"`               // start of Fault
}

// Kinds of findings.
const (
	AboutEtcd    = "etcd"
	AboutStore   = "object_store"
	AboutOwner   = "owner"
	AboutClock   = "clock"
	AboutReplica = "replica"
	AboutAgent   = "agent"
)

// Finding is a fault in words. Replicas describe the same fault with the same Kind and Subject.
type Finding struct {
	Kind    string `json:"kind"`
	Subject string `json:"subject"` // address of the part, or name of the virtual cluster
	Text    string `json:"text"`
	// Since is the start of the fault by this replica's clock, to the second; absent if it is unknown.
	Since time.Time `json:"since,omitzero"`
}

// Find reports a part whose silence or fullness reaches its bound.
const (
	replicaSilence = 3 * time.Second // the replica was asked just before
	agentSilence   = api.MaxRest     // of an idle agent, which probes every 12.5 s
	hiddenSilence  = 5 * time.Second // of a hidden agent: its stream broke, so it should have come back
	fullShare      = 0.9             // of an etcd member's quota
)

// Add appends a finding, in one line. since is the start of the fault, or zero.
func (p *Plane) Add(kind, subject, text string, since time.Time) {
	if !since.IsZero() {
		since = since.UTC().Truncate(time.Second)
	}
	p.Findings = append(p.Findings, Finding{kind, subject, strings.ReplaceAll(text, "\n", "; "), since})
}

// Find appends the findings about etcd's space and replicas.
func (p *Plane) Find() {
	now, unknown := time.Now(), time.Time{}
	for _, m := range p.Etcd {
		if m.Allowed > 0 && float64(m.Used) >= fullShare*float64(m.Allowed) {
			p.Add(AboutEtcd, m.Address, fmt.Sprintf("etcd at %s uses %.0f%% of its space (--quota-backend-bytes)", m.Address, 100*float64(m.Used)/float64(m.Allowed)), unknown)
		}
	}
	for _, r := range p.Replicas {
		if r.Refuses {
			p.Add(AboutReplica, r.Address, fmt.Sprintf("replica %s at %s refuses requests: %s", r.Replica, r.Address, r.Fault), unknown)
			continue
		}
		if silence := seconds(r.Silence); silence >= replicaSilence {
			at := r.Address
			if r.HTTP != "" {
				at += " and " + r.HTTP
			}
			text := fmt.Sprintf("replica %s at %s has not been heard of for %s", r.Replica, at, words(silence))
			if r.Fault != "" {
				text += ": " + r.Fault
			}
			p.Add(AboutReplica, r.Address, text, now.Add(-silence))
		}
	}
}

// Find appends the findings about etcd's space, replicas and agents. An agent that drains has given notice, so its silence is no finding.
func (s *Status) Find() {
	s.Plane.Find()
	now, unknown := time.Now(), time.Time{}
	if s.AgentsAge == nil {
		s.Add(AboutAgent, "", "the agents are not known: "+s.AgentsFault, unknown)
		return
	}
	for _, a := range s.Agents {
		silence := seconds(a.Silence)
		bound := agentSilence
		if a.State == session.AgentHidden {
			bound = hiddenSilence
		}
		if a.State == session.AgentDrains || a.State != session.AgentStopped && silence < bound {
			continue
		}
		zone := ""
		if a.Zone != "" {
			zone = " of zone " + a.Zone
		}
		silence += seconds(*s.AgentsAge)
		text := fmt.Sprintf("agent %d%s at %s stopped answering %s ago", a.Session, zone, a.Address, words(silence))
		s.Add(AboutAgent, a.Address, text, now.Add(-silence))
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// words returns a duration in its largest unit of which there are two or more.
func words(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int64(d/time.Second))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int64(d/time.Minute))
	}
	return fmt.Sprintf("%d h", int64(d/time.Hour))
}
