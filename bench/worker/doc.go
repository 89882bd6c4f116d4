// Package worker is what generates the load of a benchmark, as told by whoever conducts it: in this process (Local), in
// another one over HTTP (Remote, which Serve answers), or in many at once (Ensemble).
//
// The HTTP interface is JSON over POST, one path for each method of Worker, below /v1/. It has no authentication and
// sends whatever load to wherever it is told, so it belongs on networks where everybody is trusted.
package worker

import (
	"context"

	"github.com/freshet-io/freshet/bench/load"
)

// Worker carries out a run: Init, then topics, consumers and producers, a probe, load, and Stop. Methods are called one
// after the other, but for those that read or set a rate, which may come at any time after StartLoad.
type Worker interface {
	// Init ends what an earlier run left and prepares for a new one. The warnings are about configuration.
	Init(ctx context.Context, setup Setup) (warnings []string, err error)
	CreateTopics(ctx context.Context, topics Topics) error
	// CreateProducers makes one producer for each entry.
	CreateProducers(ctx context.Context, topics []string) error
	// CreateConsumers makes one consumer for each entry, which reads from then on.
	CreateConsumers(ctx context.Context, subscriptions []load.Subscription) error
	// Probe sends one message with each producer and waits for the answers.
	Probe(ctx context.Context) error
	StartLoad(ctx context.Context, l Load) error
	SetRate(ctx context.Context, change RateChange) error
	PauseConsumers(ctx context.Context) error
	ResumeConsumers(ctx context.Context) error
	// ResetLatencies forgets them; counters go on.
	ResetLatencies(ctx context.Context) error
	Counters(ctx context.Context) (load.Counters, error)
	// Period gives what happened since the call before; its histograms are good until the next one.
	Period(ctx context.Context) (Period, error)
	Cumulative(ctx context.Context) (load.Latencies, error)
	// StopLoad ends sending and waits until everything sent was answered.
	StopLoad(ctx context.Context) error
	// Stop ends everything. It may be called at any time, and again.
	Stop(ctx context.Context) error
}

// Setup is how clients are configured, in Java properties text.
type Setup struct {
	Common      string `json:"common"`
	Producer    string `json:"producer"`
	Consumer    string `json:"consumer"`
	Bootstrap   string `json:"bootstrap,omitempty"` // if set, instead of bootstrap.servers
	RecordBytes int    `json:"recordBytes"`         // of the largest record
}

// Topics are topics to make.
type Topics struct {
	Topics      []load.Topic      `json:"topics"`
	Replication int16             `json:"replication"`           // -1 is the server's default
	Configs     map[string]string `json:"configs,omitempty"`     // of each topic
	ResetPrefix string            `json:"resetPrefix,omitempty"` // if set, topics whose names begin so are deleted first
}

// Load is what producers send.
type Load struct {
	Rate    float64   `json:"rate"` // messages/s of all producers of this worker
	Keys    load.Keys `json:"keys"`
	Payload Payload   `json:"payload"`
}

// Payload says what values are: random ones, or a given one.
type Payload struct {
	Size    int     `json:"size"` // bytes
	Ratio   float64 `json:"ratio"`
	Pool    int     `json:"pool"`
	Content []byte  `json:"content,omitempty"` // if set, instead of the others
}

// RateChange is a new rate of all producers of this worker.
type RateChange struct {
	Rate float64 `json:"rate"` // messages/s
	// Restart forgets messages that are overdue; see load.Rate.
	Restart bool `json:"restart"`
}

// Period is what a worker did and cost.
type Period struct {
	load.Period
	CPU load.CPUUse // of workers, the one whose share is largest
}
