package view

import "math"

// LeaderEpoch returns the leader epoch of all partitions under a version of the membership. The version rises whenever a
// partition can move to another agent or port.
func LeaderEpoch(version uint64) int32 { return int32(min(version, math.MaxInt32)) }
