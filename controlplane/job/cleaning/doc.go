// Package cleaning decides when a partition of a compacted topic is cleaned, and how far: the part of Kafka's
// LogCleanerManager and LogToClean that chooses. It only looks at what the state machine knows; the cleaning itself is
// the work of an agent.
//
// Kafka decides by segments, this package by extents. What Kafka calls the active segment, which it never cleans, is
// here what still lies in bundles as agents wrote them for their clients: it is compacted into longer extents first, so
// that cleaning reads few objects. As Kafka rolls a segment that max.compaction.lag.ms asks to be cleaned, so these are
// taken as they are once they are older than that.
package cleaning
