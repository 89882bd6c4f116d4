package assign

import (
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// placer places the partitions of one topic.
type placer struct {
	agents []Agent
	places []Place
	seeds  []uint64 // by partition
	held   [][]bid  // by agent: the partitions it has; heaps, once some agent has no room
	room   int      // of each agent
}

// bid is a partition with an agent, and how high they rank each other.
type bid struct {
	rank      uint64
	partition int32
}

func (p *placer) place(topic [16]byte, partitions int32, agents []Agent) []Place {
	if len(agents) == 0 || partitions <= 0 {
		return nil
	}
	base := xxhash.Sum64(topic[:])
	p.prepare(base, int(partitions), agents)
	for i := range p.seeds {
		agent, rank := p.below(int32(i), math.MaxUint64, math.MaxUint32)
		p.held[agent] = append(p.held[agent], bid{rank, int32(i)})
	}
	p.settle()
	for agent, bids := range p.held {
		for _, b := range bids {
			// By the partition alone: a port that depended on what else the agent has would move when that does.
			port := (base + uint64(b.partition)) % uint64(agents[agent].Ports)
			p.places[b.partition] = Place{Index: int32(agent), Port: int32(port)}
		}
	}
	return p.places
}

func (p *placer) prepare(base uint64, partitions int, agents []Agent) {
	p.agents = agents
	p.room = (partitions + len(agents) - 1) / len(agents)
	p.places = make([]Place, partitions)
	p.seeds = make([]uint64, partitions)
	for i := range p.seeds {
		p.seeds[i] = mix(base + uint64(i)*golden)
	}
	p.held = make([][]bid, len(agents))
}

// below gives the agent that a partition ranks next after one of a rank and an id.
func (p *placer) below(partition int32, rank uint64, id uint32) (agent int32, next uint64) {
	seed := p.seeds[partition]
	agent = -1
	for i := range p.agents {
		r := rankOf(seed, p.agents[i].ID)
		if r > rank || r == rank && p.agents[i].ID >= id {
			continue
		}
		if agent < 0 || r > next || r == next && p.agents[i].ID > p.agents[agent].ID {
			agent, next = int32(i), r
		}
	}
	return agent, next
}

// settle sends partitions on from agents that have more than they have room for, the lowest ranks first, until none has.
func (p *placer) settle() {
	full := func(h []bid) bool { return len(h) > p.room }
	if !slices.ContainsFunc(p.held, full) {
		return
	}
	for i := range p.held {
		heapify(p.held[i])
	}
	for i := range p.held {
		for len(p.held[i]) > p.room {
			last := len(p.held[i]) - 1
			lowest := p.held[i][0]
			p.held[i][0] = p.held[i][last]
			p.held[i] = p.held[i][:last]
			down(p.held[i], 0)
			p.move(lowest, int32(i))
		}
	}
}

// move finds another agent for a partition that one does not keep, and for whom it drives out.
func (p *placer) move(b bid, from int32) {
	for {
		agent, rank := p.below(b.partition, b.rank, p.agents[from].ID)
		next := bid{rank, b.partition}
		h := p.held[agent]
		switch {
		case len(h) < p.room:
			p.held[agent] = append(h, next)
			up(p.held[agent])
			return
		case h[0].lower(next):
			b, h[0] = h[0], next
			down(h, 0)
		default:
			b = next
		}
		from = agent
	}
}

func (b bid) lower(o bid) bool {
	return b.rank < o.rank || b.rank == o.rank && b.partition > o.partition
}

func heapify(h []bid) {
	for i := len(h)/2 - 1; i >= 0; i-- {
		down(h, i)
	}
}

// down restores the heap, the lowest first, below an element that may be too high for its place.
func down(h []bid, i int) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && h[child+1].lower(h[child]) {
			child++
		}
		if !h[child].lower(h[i]) {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}

// up restores the heap after an element was added.
func up(h []bid) {
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h[i].lower(h[parent]) {
			return
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
}
