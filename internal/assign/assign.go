// Package assign gives partitions to agents: rendezvous hashing with bounded counts, a pure function of the topic and the
// agents, so that every agent and every client of a zone comes to the same agent without talking.
//
// Each partition ranks the agents by a hash of (topic, partition, agent). An agent has room for ceil(partitions / agents)
// of one topic, so that load is even. Of those that rank it first it keeps the highest ranks, the others go on to their
// next agent, until all have one (Gale and Shapley's stable matching, of which there is one only, because both sides go
// by the same ranks). That moves fewer than giving room to whoever comes first: nobody's place depends on its number.
package assign

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// Agent is one of those that share a topic's partitions.
type Agent struct {
	ID    uint32 // unique: the agent session
	Ports int32  // at least 1; each is a node to clients
}

// Place is who a partition belongs to.
type Place struct {
	Index int32 // of the agent
	Port  int32 // of the agent's, from 0
}

// Places gives the place of each partition of a topic, nil without agents. The order of the agents does not matter to who
// gets what.
func Places(topic [16]byte, partitions int32, agents []Agent) []Place {
	return new(placer).place(topic, partitions, agents)
}

// Partitions gives the index of the agent of each partition of a topic, of agents by their ids; nil without agents.
func Partitions(topic [16]byte, partitions int32, agents []uint32) []int32 {
	if len(agents) == 0 || partitions <= 0 {
		return nil
	}
	of := make([]Agent, len(agents))
	for i, id := range agents {
		of[i] = Agent{ID: id, Ports: 1}
	}
	owners := make([]int32, partitions)
	for p, at := range Places(topic, partitions, of) {
		owners[p] = at.Index
	}
	return owners
}

// Key gives the index into agents of the one that a name belongs to (a coordinator's key, say). It gives -1 without
// agents.
func Key(kind byte, name string, agents []uint32) int32 {
	return pick(seed(append([]byte{kind}, name...), 0), agents)
}

// pick gives the index of the highest ranking agent, -1 without agents.
func pick(seed uint64, agents []uint32) int32 {
	best, bestRank := int32(-1), uint64(0)
	for i, agent := range agents {
		r := rankOf(seed, agent)
		if best < 0 || r > bestRank || r == bestRank && agent > agents[best] {
			best, bestRank = int32(i), r
		}
	}
	return best
}

// seed hashes what is to be placed.
func seed(name []byte, n uint32) uint64 {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.Write(name) // never fails
	_, _ = d.Write(binary.LittleEndian.AppendUint32(nil, n))
	return d.Sum64()
}

// rankOf mixes a seed and an agent (the finalizer of SplitMix64, whose every output bit depends on every input bit).
func rankOf(seed uint64, agent uint32) uint64 {
	return mix(seed ^ uint64(agent)*golden)
}

// golden is 2^64 divided by the golden ratio: its multiples are far apart.
const golden = 0x9e3779b97f4a7c15

func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
