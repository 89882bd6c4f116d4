// Package curve shows how metadata grow: hours and days of commits, jobs, retention and garbage through the owner, the
// planner, the runner and the lifecycle as they are, on a driven clock and without a byte of records. What a runner would
// write is made up from its plan (merge_test.go). `make bench-curve` runs the loads in full and prints a line for each
// twelfth of their time; `make test` runs short ones. memory_test.go fills a state to its bound and measures the process.
package curve
