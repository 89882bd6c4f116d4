// Package commit is the columnar form in which an agent hands the sequencer the batches of one bundle, and the form
// of the answer. The agent encodes, the control plane validates and logs the bytes verbatim, Apply reads them.
//
// # Commit, version 1
//
// Varints are unsigned LEB128. Numbers in columns are packed (below).
//
//	field        form               meaning
//	version      1 byte             1
//	flags        1 byte             bit 0: resubmit; bit 1: there is a column as-of; other bits 0
//	session      varint, <= 2^32-1  agent session, >= 1
//	n            varint, <= 2^32-1  submission within the session, >= 1
//	acked        varint, <= 2^32-1  results up to this n were received
//	bytes        varint, <= 2^32-1  size of the bundle object
//	topics T     varint             size of the topic dictionary
//	sections S   varint
//	runs R       varint             >= S
//	producers P  varint             size of the producer dictionary, <= R
//	plain        varint             runs without producer id
//	explicit     varint             runs with a sequence of their own
//	late         varint             runs of transactional producers of a version below 2, >= 1; only with flag bit 1
//	topic ids    T x 16 bytes
//	topic        column of S        index into the topic dictionary
//	partition    column of S        <= 2^31-1
//	gap          column of S        section's position minus the end of the section before it (0 before the first)
//	runs         column of S        runs in the section, minus 1
//	pid          column of P        zigzag of the producer id minus the one before it in the dictionary
//	epoch        column of P        <= 2^15-1
//	txn          column of P        bit 0: transactional; from bit 1: transaction version
//	code         column of R        whose batches (below)
//	records      column of R        total of the run
//	bytes        column of R        total of the run
//	timestamp    column of R        largest of the run, plus 1 (0: none), <= 2^63
//	batches      column of plain    batches in the run, minus 1
//	sequence     column of explicit base sequence, <= 2^31-1
//	as-of        column of late     log index (Batch.AsOf)
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
// # Packed columns
//
// A column is cut into blocks of 64 values, the last one shorter. A block is
//
//	base     varint                    smallest value
//	width    1 byte, <= 64             bits per value
//	values   ceil(count x width / 8)   value minus base, width bits each, lowest bit first
//
// so a column of equal values costs about two bytes for each 64, and one large value costs its block only.
//
// # Result, version 1
//
//	version   1 byte   1
//	status    1 byte   Status
//	sections  varint   0 unless Settled
//	per section: log start (varint), spans (varint), and per span:
//	  batches and outcome   varint   batches << 4 | outcome
//	  base                  varint   base + 1; only if Accepted or Duplicate
package commit
