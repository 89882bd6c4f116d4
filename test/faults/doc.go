// Package faults holds the tests that break things: processes of a real cluster are killed, paused, terminated and cut
// off while idempotent producers write, and in the end every acknowledged record must be there, in order, once
// (I1 to I3). Run one with `make e2e RUN=TestKill`; -v prints the stalls measured,
// and `-args -bounds` fails where one exceeds its bound, as `make faults` does.
package faults
