// Package e2e holds the end-to-end tests: what a user does, with the clients a user has, against real processes.
// Run one with `make e2e RUN=TestDev`; `go test -artifacts -outputdir=test/artifacts` keeps the logs of processes.
package e2e
