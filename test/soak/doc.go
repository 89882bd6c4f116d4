// Package soak runs `freshet-bench verify` for as long as one likes against a cluster of real processes whose agents and
// owner are killed at random. Without FRESHET_SOAK it runs for seconds, without kills, to show that it works.
package soak
