// Package telemetry takes the metrics that clients push (KIP-714) and shows them as the agent's own.
//
// Operators subscribe to client metrics with configs (package clientmetrics), which agents follow in the catalogue. A
// client asks what to push (Get), then pushes OTLP metrics at the interval it was told (Push). The rules, who is told
// to slow down and which errors there are, are those of Kafka's ClientMetricsManager.
//
// What is pushed becomes two Prometheus metrics: freshet_client_gauge, and freshet_client_total for sums, which
// clients push as differences and which are added up here. A client's series go when it has not been heard of for
// three intervals, at least a minute. Everything is bounded: clients, series, points of a push, label lengths; what is
// beyond is counted and dropped.
//
// Clients are known to one agent at a time. One that goes to another agent is asked to subscribe there, and its sums
// begin anew, as after a restart.
package telemetry
