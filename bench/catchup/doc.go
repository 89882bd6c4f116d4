// Package catchup measures what reading history costs those at the live edge: AutoMQ's catch-up test, scaled to one
// machine. A backlog is produced and compacted; then, in turns, records are produced at a steady rate while a consumer
// follows them, without and with three groups that read the whole backlog, 30 s apart.
//
// Agent, control plane (with its embedded etcd) and clients (franz-go) are processes of their own on loopback, so that
// CPU time is the kernel's for just the one measured. Objects are files, as slow as the model of a real object store
// says, for compaction too. All clients of a turn are one process, so that end-to-end times have one clock.
//
// Groups are paced, since without that a reader takes all the CPU there is, on a machine which it shares with the rest.
package catchup
