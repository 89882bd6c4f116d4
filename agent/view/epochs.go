package view

import (
	"math"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/internal/assign"
)

// LeaderEpoch is the leader epoch of a partition: the version of the membership at which it was last given to another
// agent or port. version is the snapshot's: an owner that does not tell has this for all.
func (t *Topic) LeaderEpoch(partition int32, version uint64) int32 {
	if len(t.Epochs) == 0 {
		return epochOf(version)
	}
	return t.Epochs.At(partition)
}

// epochOf is a membership version as clients see it.
func epochOf(version uint64) int32 { return int32(min(version, math.MaxInt32)) }

// epochs reads the leader epochs of a topic: those of all its partitions, or none.
func epochs(m *api.Topic) assign.Epochs {
	var e assign.Epochs
	for runs := m.GetLeaderEpochs(); len(runs) >= 2; runs = runs[2:] {
		e = e.Append(runs[0], runs[1])
	}
	if e.Partitions() != m.GetPartitions() {
		return nil // not told; the owner tells all or none
	}
	return e
}

// move takes the partitions that a new membership gave to others into a snapshot that is being made: they get its version
// for a leader epoch. runs is Catalogue.moved. Its topics must be those that the owner has, which the order of the
// stream's messages sees to.
func (s *Snapshot) move(runs []int32) {
	m := mover{runs: runs, epoch: epochOf(s.Version)}
	m.next()
	var changed []*Topic
	s.byName.Scan(func(_ string, t *Topic) bool {
		if t.Internal {
			return true // the owner has none
		}
		if e := m.raise(t); e != nil {
			c := *t
			c.Epochs = e
			changed = append(changed, &c)
		}
		return true
	})
	for _, t := range changed {
		s.byName.Set(t.Name, t)
		s.byID.Set(string(t.ID[:]), t)
	}
}

// mover goes through the runs of Catalogue.moved, topic by topic.
type mover struct {
	runs  []int32
	epoch int32
	left  int32 // partitions of the run under way; -1: of all that are left
	moved bool  // whether they have moved
	begun bool
}

// next begins the next run that is not empty.
func (m *mover) next() {
	for {
		m.moved = m.begun && !m.moved
		m.begun = true
		if len(m.runs) == 0 {
			m.left, m.moved = -1, true
			return
		}
		m.left, m.runs = m.runs[0], m.runs[1:]
		if m.left > 0 {
			return
		}
	}
}

// raise gives the epochs of the next topic; nil if they stay, or are not known one by one.
func (m *mover) raise(t *Topic) assign.Epochs {
	var raised assign.Epochs
	some := false
	for run, old := range t.Epochs.Runs() {
		for run > 0 {
			n := run
			if m.left >= 0 {
				n = min(n, m.left)
				m.left -= n
			}
			epoch := old
			if m.moved {
				epoch, some = m.epoch, true
			}
			raised = raised.Append(n, epoch)
			run -= n
			if m.left == 0 {
				m.next()
			}
		}
	}
	if !some {
		return nil
	}
	return raised
}
