// Package lifecycle keeps what a virtual cluster stores bounded and whole. Beside the owner, for the length of a tenure:
//
//   - retention raises the log start of partitions whose records are too old or too many (retention.ms,
//     retention.bytes; cleanup.policy has delete). That is a command like DeleteRecords, but has no effect once the configs
//     are not those that it was decided by.
//   - purge gives up deleted topics whose deletion could be taken back for long enough.
//   - garbage has agents delete the objects of dead bundles, which no extent refers to. An object goes only when its bundle
//     was dead in the older of the retained snapshots, so that no state that can come back refers to it, and a grace
//     longer than any reader's plan is over. Objects first, then a command that forgets them: a crash between the two
//     only repeats the deletion.
//   - sweep has agents list ended agent sessions and jobs, and delete their orphans: objects that no commit made known. Only
//     sessions and jobs that the state saw begin and end are listed.
//
// Only agents touch the bucket with the records. Without a connected agent with the jobs role, garbage and sweeps wait.
//
// An object that the store refuses to delete holds up no other: its bundle, session or job waits for a growing pause.
//
// All look at a frozen state or for a moment, so commits go on, and go by the store's clock where the state's time is ahead
// of it: a wrong clock of the owner's machine deletes nothing. An owner that is none any more can do no harm: a command of its
// is refused, a bundle that was dead for the grace in the log it knew can never live again (metadata.ForgetBundles), and a
// session that has ended has ended for ever.
package lifecycle
