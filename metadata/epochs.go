package metadata

import (
	"math"
	"slices"

	"github.com/freshet-io/freshet/internal/assign"
	"github.com/freshet-io/freshet/metadata/id"
)

// audience is the agents among which partitions are shared out for some clients: those of a zone that a listener
// reaches, or of all zones, for clients whose own has none.
type audience struct {
	listener, zone string
	everywhere     bool // of all zones; zone is ""
	agents         []assign.Agent
}

// audiences are those of one membership. They do not change.
type audiences []audience

// currentAudiences gives those of the sessions that are shown.
func (s *machine) currentAudiences() audiences {
	var all audiences
	s.sessions.Scan(func(n id.Session, e *session) bool {
		if e.shown() {
			all.add(n, e)
		}
		return true
	})
	return all
}

// add puts an agent into the audiences that it belongs to. Agents come in the order of their sessions.
func (a *audiences) add(n id.Session, e *session) {
	for i, first := range e.endpoints {
		sameListener := func(o Endpoint) bool { return o.Listener == first.Listener }
		if slices.IndexFunc(e.endpoints, sameListener) != i {
			continue
		}
		agent := assign.Agent{ID: uint32(n)}
		for _, o := range e.endpoints[i:] {
			if sameListener(o) {
				agent.Ports++
			}
		}
		a.put(audience{listener: first.Listener, zone: e.zone}, agent)
		a.put(audience{listener: first.Listener, everywhere: true}, agent)
	}
}

func (a *audiences) put(to audience, agent assign.Agent) {
	i := slices.IndexFunc(*a, to.same)
	if i < 0 {
		i = len(*a)
		*a = append(*a, to)
	}
	(*a)[i].agents = append((*a)[i].agents, agent)
}

// same tells whether both are for the same clients.
func (a audience) same(b audience) bool {
	return a.listener == b.listener && a.zone == b.zone && a.everywhere == b.everywhere
}

// seen gives the agents that clients see who belong to an audience: those of everywhere if it has none here.
func (a audiences) seen(by audience) []assign.Agent {
	if i := slices.IndexFunc(a, by.same); i >= 0 {
		return a[i].agents
	}
	if by.everywhere {
		return nil
	}
	return a.seen(audience{listener: by.listener, everywhere: true})
}

// turnover is how what some clients see changes.
type turnover struct{ before, after []assign.Agent }

// turnovers gives the changes from one membership to another, each once.
func turnovers(before, after audiences) []turnover {
	var all []turnover
	for _, a := range slices.Concat(before, after) {
		t := turnover{before.seen(a), after.seen(a)}
		same := func(o turnover) bool { return slices.Equal(o.before, t.before) && slices.Equal(o.after, t.after) }
		if !slices.Equal(t.before, t.after) && !slices.ContainsFunc(all, same) {
			all = append(all, t)
		}
	}
	return all
}

// leaderEpoch is the membership version as clients see it.
func (s *machine) leaderEpoch() int32 { return int32(min(s.membership, math.MaxInt32)) }

// setEpochs puts a topic with other epochs in the place of the old one.
func (s *machine) setEpochs(e *topicEntry, epochs assign.Epochs) {
	t := *e.topic
	t.LeaderEpochs = epochs
	s.mutableTopic(e).topic = &t
}

// settleEpochs raises, after an entry that changed the membership, the epochs of what has moved since the entry before.
// It costs partitions times agents, for each audience that has changed.
func (s *machine) settleEpochs() {
	before := s.audiences
	s.audiences = s.currentAudiences()
	changes := turnovers(before, s.audiences)
	if len(changes) == 0 {
		return
	}
	type raised struct {
		topic  *topicEntry
		epochs assign.Epochs
	}
	var all []raised
	s.topics.Scan(func(_ string, e *topicEntry) bool {
		if moved := s.scratch.moves(e.topic, changes); moved != nil {
			all = append(all, raised{e, e.topic.LeaderEpochs.Raise(moved, s.leaderEpoch())})
		}
		return true
	})
	for _, r := range all {
		s.setEpochs(r.topic, r.epochs)
	}
}

// moves tells of each of a topic's partitions whether it is another agent's or port's after the changes, for any
// clients; nil if none is.
func (s *scratch) moves(t *Topic, changes []turnover) []bool {
	s.moved = slices.Grow(s.moved[:0], int(t.Partitions))[:t.Partitions]
	clear(s.moved)
	some := false
	for _, c := range changes {
		before := s.before.Places(t.ID, t.Partitions, c.before)
		after := s.after.Places(t.ID, t.Partitions, c.after)
		for p := range s.moved {
			if assign.Moved(before, after, p) {
				s.moved[p], some = true, true
			}
		}
	}
	if !some {
		return nil
	}
	return s.moved
}

// grow gives the epochs of a topic that gets more partitions. That can move partitions it has: the membership version
// rises then, though no agent comes or goes, so that no epoch means two places.
func (s *machine) grow(t *Topic, count int32, fx *Effects) assign.Epochs {
	moved := make([]bool, t.Partitions)
	for _, a := range s.audiences {
		before := s.scratch.before.Places(t.ID, t.Partitions, a.agents)
		after := s.scratch.after.Places(t.ID, count, a.agents)
		for p := range moved {
			moved[p] = moved[p] || assign.Moved(before, after, p)
		}
	}
	if slices.Contains(moved, true) {
		s.membershipChanged(fx)
	}
	epochs := slices.Clone(t.LeaderEpochs.Raise(moved, s.leaderEpoch()))
	return epochs.Append(count-t.Partitions, s.leaderEpoch())
}

// newEpochs are those of a topic that was not there: none is below what its partitions had under an earlier name.
func (s *machine) newEpochs(partitions int32) assign.Epochs {
	return assign.Uniform(partitions, s.leaderEpoch())
}
