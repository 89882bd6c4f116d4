package scale

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/id"
)

// The machine around the figure, second by second, with a driven clock: agents share what is asked of them evenly once
// they have served for a while, tell the average of their last ten seconds, and an autoscaler of Kubernetes' kind looks
// at the figure every 15 s. Its agents take 20 s to start.
const (
	pollSeconds   = 15
	startSeconds  = 20
	rampSeconds   = 15 // until a new agent has its share of the load
	smoothSeconds = 10
)

type simAgent struct {
	session id.Session
	since   int       // second from which on it serves
	past    []float64 // utilization in each of the last seconds
}

type simulation struct {
	zone    *followed
	agents  []simAgent
	pending []int // seconds at which agents come up
	second  int
	next    id.Session

	changes int   // of the figure
	figures []int // by second
	counts  []int // of agents, by second
	above   int   // seconds in which an agent used more than 0.9 of itself
	longest int   // in a row
	row     int
	demand  []float64 // by second, in agents
}

func newSimulation(t *testing.T, agents int) *simulation {
	t.Helper()
	s := &simulation{zone: follow(t)}
	for range agents {
		s.start(-1000)
	}
	return s
}

func (s *simulation) start(since int) {
	s.next++
	s.agents = append(s.agents, simAgent{session: s.next, since: since})
}

// run lets seconds pass; demand is in agents, by the second since it began.
func (s *simulation) run(seconds int, demand func(second int) float64) {
	for n := range seconds {
		s.arrive()
		s.serve(demand(n))
		figure := s.tell()
		if last := len(s.figures) - 1; last >= 0 && s.figures[last] != figure {
			s.changes++
		}
		s.figures, s.counts = append(s.figures, figure), append(s.counts, len(s.agents))
		if s.second%pollSeconds == 0 {
			s.scale(figure)
		}
		s.second++
	}
}

func (s *simulation) arrive() {
	for len(s.pending) > 0 && s.pending[0] <= s.second {
		s.pending = s.pending[1:]
		s.start(s.second)
	}
}

// serve shares the demand out: by how long agents have been there, up to all of an agent.
func (s *simulation) serve(demand float64) {
	s.demand = append(s.demand, demand)
	weight, sum := make([]float64, len(s.agents)), 0.0
	for i, a := range s.agents {
		weight[i] = min(1, float64(s.second-a.since)/rampSeconds)
		sum += weight[i]
	}
	hot := false
	for i := range s.agents {
		used := 0.0
		if sum > 0 {
			used = min(1, demand*weight[i]/sum)
		}
		hot = hot || used > 0.9
		s.agents[i].past = append(s.agents[i].past, used)
		if n := len(s.agents[i].past); n > smoothSeconds {
			s.agents[i].past = s.agents[i].past[n-smoothSeconds:]
		}
	}
	s.row++
	if !hot {
		s.row = 0
	} else {
		s.above++
	}
	s.longest = max(s.longest, s.row)
}

func (s *simulation) tell() int {
	all := make([]Agent, len(s.agents))
	for i, a := range s.agents {
		all[i] = Agent{Session: a.session, Known: true}
		for _, u := range a.past {
			all[i].Utilization += u / float64(len(a.past))
		}
	}
	return s.zone.steps(1, all).Replicas
}

// scale is what the autoscaler does: agents that go are the newest, at once.
func (s *simulation) scale(figure int) {
	for have := len(s.agents) + len(s.pending); have < figure; have++ {
		s.pending = append(s.pending, s.second+startSeconds)
	}
	for len(s.agents)+len(s.pending) > figure && len(s.pending) > 0 {
		s.pending = s.pending[:len(s.pending)-1]
	}
	for len(s.agents) > figure {
		s.agents = s.agents[:len(s.agents)-1]
	}
}

func (s *simulation) now() int { return s.figures[len(s.figures)-1] }

func (s *simulation) falls() (n int) {
	for i := 1; i < len(s.figures); i++ {
		if s.figures[i] < s.figures[i-1] {
			n++
		}
	}
	return n
}

// needed is how many agents have a demand at the target.
func needed(demand float64) int { return int(math.Ceil(demand/0.6 - 1e-9)) }

func TestSimulation_LinearRise(t *testing.T) {
	s := newSimulation(t, 1)
	s.run(600, func(int) float64 { return 0.5 })
	require.Equal(t, 1, s.now())
	s.run(1200, func(n int) float64 { return 0.5 + 9.5*float64(n)/1200 })
	s.run(300, func(int) float64 { return 10 })
	require.Zero(t, s.falls(), "it only rises")
	require.LessOrEqual(t, s.above, 30, "while one agent becomes two; then it is ahead of 0.9")
	require.InDelta(t, needed(10), s.now(), 1)
	require.LessOrEqual(t, s.changes, needed(10))
	t.Logf("from 0.5 to 10 agents' work in 20 min: %d changes, %d s above 0.9", s.changes, s.above)
}

func TestSimulation_JumpTenfold(t *testing.T) {
	s := newSimulation(t, 2)
	s.run(600, func(int) float64 { return 1.2 })
	require.Zero(t, s.changes)
	s.run(900, func(int) float64 { return 12 })
	t.Logf("from 1.2 to 12 agents' work at once: %d s above 0.9, %d changes, at most %d agents of %d needed",
		s.above, s.changes, maxOf(s.counts), needed(12))
	require.LessOrEqual(t, s.longest, 180, "each round of start-up brings two thirds more")
	require.Zero(t, s.falls())
	require.GreaterOrEqual(t, s.now(), needed(12))
	require.LessOrEqual(t, maxOf(s.figures), needed(12)+2, "no overshoot")
}

func TestSimulation_FallsToZero(t *testing.T) {
	s := newSimulation(t, 10)
	s.run(600, func(int) float64 { return 6 })
	require.Zero(t, s.changes)
	s.run(300, func(int) float64 { return 0 })
	require.Equal(t, 10, s.now(), "the most of five minutes")
	s.run(30, func(int) float64 { return 0 })
	require.Equal(t, 1, s.now())
	s.run(3600, func(int) float64 { return 0 })
	require.Equal(t, 1, s.now())
	require.LessOrEqual(t, s.changes, 10)
	require.Zero(t, s.above)
}

func TestSimulation_Oscillation(t *testing.T) {
	for name, period := range map[string]int{"of 20 s": 20, "of 1 min": 60, "of 4 min": 240} {
		t.Run(name, func(t *testing.T) {
			s := newSimulation(t, 4)
			wave := func(n int) float64 { return 3 + 2*math.Sin(2*math.Pi*float64(n)/float64(period)) }
			s.run(600, wave)
			settled, above := s.changes, s.above
			s.run(1200, wave)
			require.Equal(t, settled, s.changes, "it stays at what the peaks take")
			require.Equal(t, above, s.above, "and the peaks are not above 0.9 any more")
			require.LessOrEqual(t, s.now(), needed(5)+1)
		})
	}
}

// Noise around the target is none of its business.
func TestSimulation_Noise(t *testing.T) {
	s := newSimulation(t, 5)
	noise := []float64{0.05, -0.04, 0.09, -0.09, 0.01, 0.07, -0.08, -0.02}
	s.run(3600, func(n int) float64 { return 3 * (1 + noise[n%len(noise)]) })
	require.Zero(t, s.changes)
}

// Days and nights: the figure follows within the windows, once up and once down, with few steps.
func TestSimulation_Days(t *testing.T) {
	s := newSimulation(t, 2)
	const day = 2 * 3600 // they are short
	load := func(n int) float64 { return 5 - 4*math.Cos(2*math.Pi*float64(n)/day) }
	s.run(2*day, load)
	require.Zero(t, s.above)
	require.LessOrEqual(t, s.changes, 2*2*needed(9))
	for n := 600; n < 2*day; n += 600 {
		require.InDelta(t, s.demand[n]/0.6, s.figures[n], 3, "at %v", time.Duration(n)*time.Second)
	}
}

// One client's connections fill an agent, whatever the others do: the zone does not grow without bound.
func TestSimulation_OneHotAgent(t *testing.T) {
	f := follow(t)
	loads := []float64{1, 0.2, 0.2}
	for range 3600 {
		want := f.steps(1, agents(loads...)).Replicas
		for len(loads) < want {
			loads = append(loads, 0)
		}
	}
	require.Len(t, loads, 2*needed(1.4))
}

func maxOf(all []int) (most int) {
	for _, n := range all {
		most = max(most, n)
	}
	return most
}
