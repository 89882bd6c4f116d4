// Package removal looks for records that go though they must stay. It runs the real planner of background jobs, the real
// retention and garbage collection, the real state machine and the real compaction and cleaning over a bucket in memory, in
// virtual time, and breaks them as a seed says: configs that change between a plan and its outcome, clocks that are wrong,
// owners that change, outcomes that come late, twice, from another agent or forged, transactions, DeleteRecords, deletions
// that are taken back.
//
// An oracle notes every record that was ever written. At each command that can remove records it asks of each that has gone
// whether the configs and the true time of that moment allow it: cleaning needs the compact policy, the lag, and a later
// record of the key or a tombstone past its horizon; retention needs the delete policy and the age or the size; compaction
// may remove nothing. No aborted record may ever show, and no value of a key may come back behind its tombstone.
//
// FRESHET_REMOVAL_SEED names the first seed, FRESHET_REMOVAL_SEEDS how many follow each other (default: the short form).
package removal
