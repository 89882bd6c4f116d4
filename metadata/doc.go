// Package metadata is the state machine of one virtual cluster: everything Freshet knows about topics, partitions,
// where their records are, producers and agents. It is pure: Apply is the only way to change it, and it does no I/O,
// reads no clock and starts no goroutine. See DESIGN.md beside this file.
package metadata
