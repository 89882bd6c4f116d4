// Package assign gives partitions to agents: bounded rendezvous hashing, a pure function of the partition and the
// membership, so that every agent and every client of a zone comes to the same agent without talking (design.md 8).
//
// Each partition ranks the agents by a hash of (topic, partition, agent) and takes the first with room. An agent has
// room for ceil(partitions / agents) of one topic, so that load is even; few partitions move when an agent comes or
// goes, because ranks do not change.
package assign

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// Partitions gives, for each partition of a topic, the index into agents of the one it belongs to. Agents are
// unique numbers (session ids); their order does not matter to who gets what. It gives nil without agents.
func Partitions(topic [16]byte, partitions int32, agents []uint32) []int32 {
	if len(agents) == 0 || partitions <= 0 {
		return nil
	}
	n := int32(len(agents))
	room := make([]int32, n)
	for i := range room {
		room[i] = (partitions + n - 1) / n
	}
	owners := make([]int32, partitions)
	for p := range owners {
		best := pick(seed(topic[:], uint32(p)), agents, room)
		owners[p] = best
		room[best]--
	}
	return owners
}

// Key gives the index into agents of the one that a name belongs to (a coordinator's key, say). It gives -1 without
// agents.
func Key(kind byte, name string, agents []uint32) int32 {
	return pick(seed(append([]byte{kind}, name...), 0), agents, nil)
}

// pick gives the index of the highest ranking agent, among those with room if room is not nil.
func pick(seed uint64, agents []uint32, room []int32) int32 {
	best, bestRank := int32(-1), uint64(0)
	for i, agent := range agents {
		if room != nil && room[i] == 0 {
			continue
		}
		r := rank(seed, agent)
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

// rank mixes a seed and an agent (the finalizer of SplitMix64, whose every output bit depends on every input bit).
func rank(seed uint64, agent uint32) uint64 {
	x := seed ^ uint64(agent)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
