// Package agent composes one agent: a stateless process that speaks Kafka, gathers what producers send into objects,
// and serves consumers from its memory and the object store. It holds nothing that a crash could lose (I5).
//
// This package wires the parts together and starts and stops them in order; what they do is in the sub-packages: edge
// (connections), kafka (one file per API), writer (produce path), view (what is known of the cluster), cache and fetch
// (read path).
package agent
