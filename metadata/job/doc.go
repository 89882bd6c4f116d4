// Package job holds what the owner of a virtual cluster and the agents that run its background jobs tell each other: a
// Plan, which says what to rewrite, and an Outcome, which says what it became. The state machine sees outcomes alone.
//
// Both formats can be cut between partitions: parts are whole plans or outcomes of their own, in order.
//
// Plan:
//
//	field       form    meaning
//	version     1 byte  1
//	job         varint
//	kind        1 byte  Kind
//	level       1 byte  of the bundles to be written
//	count       varint
//	per partition, ascending:
//	partition           see below
//	extents     bytes   package extent's list
//	aborted     varint  count; producer varint, first varint, last minus first varint
//	clean       1 byte  whether the fields of CleanSpec follow, in their order, zigzag
//
// Outcome:
//
//	version     1 byte  1
//	bundles     varint  count; n varint, bytes varint
//	count       varint
//	per partition, ascending:
//	partition           see below
//	from        varint
//	span        varint  to minus from
//	extents     bytes   package extent's list
//	dropped     varint  count; distances of marker offsets, varint
//	cleaned     zigzag  CleanedTo
//
// A partition is its topic, as 0 for the topic of the partition before or 1 and the 16 bytes of its id, and its number
// as a varint.
package job
