// Package observe samples, from outside, what a run costs the programs it loads: CPU time and memory of processes as the
// kernel counts them (Linux), and of anything that serves Prometheus metrics its CPU time, memory and, for Freshet, its
// requests to the object store. A series is kept as JSON beside the result of the run.
//
// All counters are kept as read, as totals since the program started: rates are made when they are shown, so that a
// sample that was missed costs resolution and no more.
package observe
