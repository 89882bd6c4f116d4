package controlplane

import (
	"cmp"
	"math"
	"runtime/debug"

	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/metadata"
)

const (
	// leastProducers is the least default bound of active producers.
	leastProducers = 1 << 16
	// leastMembers is the minimum bound of the members of all groups. It has room for one group of the maximum size.
	leastMembers = 16 << 20
	// leastForwards is the least bound of the bodies of forwarded requests. It has room for one of the maximum size.
	leastForwards = 64 << 20
	// maxStoredSessions is the default bound of the open sessions of a virtual cluster of etcd, whose agents are its tenant's.
	maxStoredSessions = 256
	// leastQueue and mostQueue bound the commands that wait for the log. leastQueue has room for one command of the maximum size.
	leastQueue, mostQueue = 17 << 20, 64 << 20
)

// Bounds are the bounds of one virtual cluster's metadata.
type Bounds struct {
	// Bytes bounds the estimated memory of the state (metadata.Load.MemoryBytes). 0 means no bound.
	Bytes int64
	// Extents bounds the live extents. 0 takes the owner's default.
	Extents int64
	// PlannedExtents is the bound that background jobs work towards. 0 takes the planner's default.
	PlannedExtents int64
	// Producers bounds the active producers.
	Producers int64
	// QueueBytes bounds the commands that wait for the log.
	QueueBytes int64
	// ForwardBytes bounds the bodies of the requests that agents forward. 0 takes the default of session.Limits.
	ForwardBytes int64
	// MemberBytes bounds the bytes of the members of all groups (classic.Budget). 0 takes the coordinator's default.
	MemberBytes int64
	// Limits are the limits of the state. They are zero if there is no limit of the memory and none is configured.
	Limits metadata.Limits
}

// limitedBytes is about the memory of one of each kind of metadata.Limits, in the state and in the coordinators.
var limitedBytes = metadata.Limits{
	metadata.LimitTopics:           1 << 10,
	metadata.LimitPartitions:       metadata.PartitionBytes,
	metadata.LimitGroups:           2 << 10,
	metadata.LimitGroupMembers:     8 << 10, // with its subscription and its assignment
	metadata.LimitTransactionalIDs: 768,
	metadata.LimitOffsetBytes:      1,
	metadata.LimitTextBytes:        1,
}

// Bounds returns the bounds of each virtual cluster of the settings. They share the memory.
func (c *Config) Bounds() Bounds { return c.bounds(c.share()) }

// share returns the memory of each virtual cluster of the settings, 0 for no limit.
func (c *Config) share() int64 {
	if limit := c.memory(); limit != math.MaxInt64 {
		return max(1, limit/int64(max(1, len(c.VirtualClusters))))
	}
	return 0
}

// bounds returns the bounds of a virtual cluster with a share of the memory, 0 for no limit.
//
// The state of every virtual cluster may take a quarter of its share. While a snapshot is taken there is a second
// state: first the copies of partitions that commits and trims change, then the rebuilt state, then the state read back. The rest is for
// buffers and garbage. Each kind of metadata.Limits may take half of the state.
func (c *Config) bounds(share int64) Bounds {
	b := Bounds{Extents: c.MaxExtents, PlannedExtents: c.MaxExtents, Producers: c.MaxProducers, QueueBytes: mostQueue, Limits: c.StateLimits}
	if share == 0 {
		if b.Producers == 0 {
			b.Producers = metadata.MaxProducers
		}
		return b
	}
	b.Bytes = max(1, share/4)
	b.QueueBytes = min(max(share/16, leastQueue), mostQueue)
	b.MemberBytes = max(share/16, leastMembers)
	b.ForwardBytes = max(share/8, leastForwards)
	if b.Extents == 0 {
		b.Extents = max(1, b.Bytes/metadata.ExtentBytes)
		b.PlannedExtents = max(1, b.Extents/2) // partitions and producers take memory too
	}
	if b.Producers == 0 {
		b.Producers = max(leastProducers, share/8/metadata.ProducerBytes)
	}
	for kind, each := range limitedBytes {
		if b.Limits[kind] == 0 {
			b.Limits[kind] = max(1, b.Bytes/2/each)
		}
	}
	return b
}

// boundsOf returns the bounds of the virtual cluster of a Spec. The limits of the Spec have priority.
func (c *Config) boundsOf(s *directory.Spec) Bounds {
	b := c.bounds(min(s.Memory, c.memory()))
	for kind, limit := range s.Limits {
		b.Limits[kind] = cmp.Or(limit, b.Limits[kind])
	}
	return b
}

// logLimitsOf returns the bytes of the log of the virtual cluster of a Spec after which a snapshot is taken, from which commands are delayed,
// and at which they are refused.
func (c *Config) logLimitsOf(s *directory.Spec) (snapshot, soft, hard int64) {
	if !s.Stored {
		return c.SnapshotBytes, c.SoftLogBytes, c.HardLogBytes
	}
	hard = min(cmp.Or(s.LogBytes, directory.DefaultLogBytes), c.HardLogBytes)
	return min(c.SnapshotBytes, hard/4), min(c.SoftLogBytes, hard/2), hard
}

// limitsOf returns the limits of the agent sessions of the virtual cluster of a Spec.
func (c *Config) limitsOf(s *directory.Spec) session.Limits {
	l := c.Limits
	l.ForwardBytes = cmp.Or(l.ForwardBytes, c.boundsOf(s).ForwardBytes)
	if s.Stored {
		l.Sessions = cmp.Or(l.Sessions, maxStoredSessions)
	}
	l.ApplyDefaults()
	return l
}

// memory returns the bytes that the process may take, math.MaxInt64 for no limit.
func (c *Config) memory() int64 {
	if c.MemoryLimit == 0 {
		return debug.SetMemoryLimit(-1)
	}
	return c.MemoryLimit
}

// RuntimeMemory returns the limit to set for the Go runtime of a control plane with the given memory. The runtime counts neither
// the program nor what the kernel holds for it.
func RuntimeMemory(limit int64) int64 { return limit - limit/8 }
