package job

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// maxHistory bounds the ended jobs that are remembered.
const maxHistory = 64

// endedJob is how a job ended.
type endedJob struct {
	lease
	at        time.Time
	completed bool
	reason    string
}

// States of a job as Info has them.
const (
	StateOpen      = "open"
	StateCompleted = "completed"
	StateAborted   = "aborted"
)

// Info describes a job that is open or ended of late, for operators.
type Info struct {
	ID           uint32    `json:"id"`
	State        string    `json:"state"`
	Kind         string    `json:"kind"`
	Level        uint8     `json:"level"`  // of the bundles it writes
	Runner       uint32    `json:"runner"` // agent session
	Zone         string    `json:"zone,omitempty"`
	First        string    `json:"first_partition"` // it touches no partition outside
	Last         string    `json:"last_partition"`
	Inputs       int       `json:"inputs"`       // bundles; 0 for a job that cleans
	InputBytes   int64     `json:"input_bytes"`  // 0 if another owner planned it
	BytesDone    int64     `json:"bytes_done"`   // of the inputs, as the runner says
	OutputBytes  int64     `json:"output_bytes"` // of the objects handed in so far
	PartsTaken   int       `json:"parts_taken"`  // of what it became
	Started      time.Time `json:"started"`
	AgeSeconds   float64   `json:"age_seconds"`     // to now, or to its end
	HeardSeconds float64   `json:"silence_seconds"` // since its runner last spoke of it
	Reason       string    `json:"reason,omitempty"`
}

// List gives the open jobs in the order they were started, then the ended ones of this tenure, newest first. Errors:
// owner.ErrNotOwner if this replica is not the owner.
func (p *Planner) List() ([]Info, error) {
	t := p.tenure.Load()
	if t == nil {
		return nil, owner.ErrNotOwner
	}
	all := t.infos(time.Now())
	_, err := t.owner.Read(func(s *metadata.State) {
		for i := range all {
			all[i].describe(s)
		}
	})
	if err != nil {
		return nil, err
	}
	list := make([]Info, 0, len(all))
	for i := range all {
		list = append(list, all[i].Info)
	}
	return list, nil
}

// listed is an Info to be completed with names.
type listed struct {
	Info
	first, last id.TopicPartition
}

func (l *listed) describe(s *metadata.State) {
	l.First, l.Last = partitionName(s, l.first), partitionName(s, l.last)
	if info, ok := s.Session(id.Session(l.Runner)); ok {
		l.Zone = info.Zone
	}
}

// partitionName is topic-partition as Kafka's tools write it; with the topic's id if that is gone.
func partitionName(s *metadata.State, tp id.TopicPartition) string {
	if topic, ok := s.Topic(tp.Topic); ok {
		return fmt.Sprintf("%s-%d", topic.Name, tp.Partition)
	}
	return tp.String()
}

func (t *Tenure) infos(now time.Time) []listed {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []listed
	for _, l := range t.mu.leases {
		all = append(all, l.listed(StateOpen, now))
	}
	slices.SortFunc(all, func(a, b listed) int { return cmp.Compare(a.ID, b.ID) })
	for _, e := range slices.Backward(t.mu.history) {
		state := StateAborted
		if e.completed {
			state = StateCompleted
		}
		l := e.lease.listed(state, e.at)
		l.Reason = e.reason
		all = append(all, l)
	}
	return all
}

// listed describes a job as of a time. Called with mu held.
func (l *lease) listed(state string, at time.Time) listed {
	return listed{first: l.JobInfo.First, last: l.JobInfo.Last, Info: Info{
		ID: uint32(l.ID), State: state, Kind: l.Kind.String(), Level: l.Level, Runner: uint32(l.Runner),
		Inputs: len(l.Inputs), InputBytes: l.bytes, BytesDone: l.done, OutputBytes: l.out, PartsTaken: l.parts,
		Started: l.started().UTC(), AgeSeconds: at.Sub(l.started()).Seconds(), HeardSeconds: at.Sub(l.heard).Seconds(),
	}}
}
