// Package cli is what `freshet topic`, `freshet produce` and `freshet consume` do: a small Kafka client for people,
// on franz-go. Records go to standard output and nothing else does; errors say what to try next.
package cli
