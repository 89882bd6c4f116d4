// Package report shows results of benchmarks as pictures and tables: one HTML page that opens without a network, with its
// charts inside it, and each chart as a PNG for documents.
//
// Results come from files (Load reads the OpenMessaging Benchmark's and those of `freshet-bench perf`) or from a program
// that fills in Run. Charts show a run's time on a numeric axis, so that runs of different lengths and steps fit into one
// picture.
package report
