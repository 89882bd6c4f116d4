// Package job holds what the owner of a virtual cluster and the agents that run its background jobs tell each other: a
// Plan, which says what to rewrite, and an Outcome, which says what it became. The state machine sees outcomes alone.
//
// Both formats can be cut between partitions: parts are whole plans or outcomes of their own, in order.
//
// The tables are in the form of internal/bytetable, and testdata/jobs.golden has examples.
//
// Plan:
//
//	field          form      meaning
//	version        1 byte    = 1
//	job            varint
//	kind           1 byte    Kind
//	level          1 byte    of the bundles to be written
//	partitions     varint
//	per partition, ascending, partitions times:
//	  new          1 byte    1 if the topic is another than that of the partition before, else 0
//	  if new:
//	    topic      16 bytes
//	  partition    varint
//	  extents      bytes     package extent's list
//	  aborted      varint
//	  per transaction, aborted times:
//	    producer   varint
//	    first      varint
//	    span       varint    last minus first
//	  clean        1 byte    1 if the partition has a CleanSpec, else 0
//	  if clean:
//	    dirty      zigzag    FirstDirty
//	    now        zigzag    NowMs
//	    retention  zigzag    DeleteRetentionMs
//	    max batch  zigzag    MaxBatchBytes
//
// Outcome:
//
//	field        form      meaning
//	version      1 byte    = 1
//	bundles      varint
//	per bundle, ascending, bundles times:
//	  n          varint
//	  size       varint
//	partitions   varint
//	per partition, ascending, partitions times:
//	  new        1 byte    as in a plan
//	  if new:
//	    topic    16 bytes
//	  partition  varint
//	  from       varint
//	  span       varint    to minus from
//	  extents    bytes     package extent's list
//	  dropped    varint
//	  per marker, dropped times:
//	    offset   varint    minus that of the marker before it (minus 0 for the first)
//	  cleaned    zigzag    CleanedTo
package job
