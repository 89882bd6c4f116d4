// Package clients holds the compatibility tests: what stock Kafka clients and Apache Kafka's command-line tools do
// against real Freshet processes, every API in every version in raw requests, and the same requests to Apache Kafka
// itself, whose answers must be the same but for a list of differences with reasons.
package clients
