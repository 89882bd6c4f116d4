// Package commit is the columnar form in which an agent hands the sequencer the batches of one bundle, and the form
// of the answer. The agent encodes, the control plane validates and logs the bytes verbatim, Apply reads them.
//
// Varints are unsigned LEB128. The tables are in the form of internal/bytetable, and testdata/commits.golden has examples.
//
// Commit:
//
//	field       form                 meaning
//	version     1 byte               = 1
//	flags       1 byte               bit 0: resubmit; bit 1: there is a column as-of; other bits 0
//	session     varint               agent session, 1 to 2^32-1
//	n           varint               submission within the session, 1 to 2^32-1
//	acked       varint               results up to this n were received, <= 2^32-1
//	size        varint               of the bundle object, <= 2^32-1
//	topics      varint               size of the topic dictionary
//	sections    varint
//	runs        varint               >= sections
//	producers   varint               size of the producer dictionary, <= runs
//	plain       varint               runs without producer id
//	explicit    varint               runs with a sequence of their own
//	if flags & 2:
//	  late      varint               runs of transactional producers of a version below 2, >= 1
//	topics times:
//	  topic id  16 bytes
//	topic       column of sections   index into the topic dictionary
//	partition   column of sections   <= 2^31-1
//	gap         column of sections   section's position minus the end of the section before it (0 before the first)
//	count       column of sections   runs in the section, minus 1
//	pid         column of producers  zigzag of the producer id minus the one before it in the dictionary
//	epoch       column of producers  <= 2^15-1
//	txn         column of producers  bit 0: transactional; from bit 1: transaction version
//	code        column of runs       whose batches (below)
//	records     column of runs       total of the run
//	bytes       column of runs       total of the run
//	timestamp   column of runs       largest of the run, plus 1 (0: none), <= 2^63
//	batches     column of plain      batches in the run, minus 1
//	sequence    column of explicit   base sequence, <= 2^31-1
//	if flags & 2:
//	  as-of     column of late       log index (Batch.AsOf)
//
// A run is one idempotent batch, or any number of adjacent batches without producer id: of these only totals are
// known, so they cost nothing each. Codes:
//
//	0    no producer id
//	1    the next producer of the dictionary that no run has named yet; sequence in the sequence column
//	2    the producer of the idempotent run before it, its sequence going on where that run's ended
//	3    the producer of the idempotent run before it; sequence in the sequence column
//	4+i  producer i of the dictionary; sequence in the sequence column
//
// A column is packed: cut into blocks of 64 values, the last one shorter. A column of equal values costs about two bytes for each 64,
// and one large value costs its block only.
//
// Block:
//
//	field   form    meaning
//	base    varint  smallest value
//	width   1 byte  bits per value, <= 64
//	values  rest    count x width bits, rounded up to bytes: value minus base, lowest bit first
//
// Result:
//
//	field        form    meaning
//	version      1 byte  = 1
//	status       1 byte  Status
//	sections     varint  0 unless Settled
//	per section, sections times:
//	  log start  varint
//	  spans      varint
//	  per span, spans times:
//	    span     varint  batches << 4 | outcome
//	    Accepted or Duplicate, if span & 15 <= 1:
//	      base   varint  base + 1
package commit
