package worker

import (
	"time"

	"github.com/freshet-io/freshet/bench/load"
)

// The paths of the HTTP interface.
const (
	pathInit      = "/v1/init"
	pathTopics    = "/v1/topics"
	pathProducers = "/v1/producers"
	pathConsumers = "/v1/consumers"
	pathProbe     = "/v1/probe"
	pathStart     = "/v1/start"
	pathRate      = "/v1/rate"
	pathPause     = "/v1/pause"
	pathResume    = "/v1/resume"
	pathReset     = "/v1/reset"
	pathCounters  = "/v1/counters"
	pathPeriod    = "/v1/period"
	pathTotal     = "/v1/total"
	pathStopLoad  = "/v1/stop-load"
	pathStop      = "/v1/stop"
)

const (
	// largestBody bounds a request: a payload, or a list of many topics.
	largestBody = 64 << 20
	// largestAnswer bounds an answer: three histograms, in full about 6 MB before compression.
	largestAnswer = 64 << 20
	// longestCall bounds a request: making very many topics, or stopping with everything still buffered.
	longestCall = 10 * time.Minute
	// orphanedAfter is how long a worker goes on without hearing from who conducts it.
	orphanedAfter = time.Minute
	// beatEvery is how often a conductor lets itself be heard.
	beatEvery = 10 * time.Second
)

// none is the body of requests and answers that say nothing.
type none struct{}

type warningsBody struct {
	Warnings []string `json:"warnings"`
}

type failure struct {
	Error string `json:"error"`
}

// periodBody is a Period as it travels.
type periodBody struct {
	Counters     load.Counters `json:"counters"`
	Totals       load.Counters `json:"totals"`
	Latencies    load.Encoded  `json:"latencies"`
	ElapsedNanos time.Duration `json:"elapsedNanos"`
	LastError    string        `json:"lastError,omitempty"`
	CPU          load.CPUUse   `json:"cpu"`
}

func encodePeriod(p Period) (periodBody, error) {
	encoded, err := p.Latencies.Encode()
	return periodBody{
		Counters: p.Counters, Totals: p.Totals, Latencies: encoded, ElapsedNanos: p.Elapsed, LastError: p.LastError, CPU: p.CPU,
	}, err
}

func (b periodBody) decode() (Period, error) {
	latencies, err := b.Latencies.Decode()
	return Period{CPU: b.CPU, Period: load.Period{
		Counters: b.Counters, Totals: b.Totals, Latencies: latencies, Elapsed: b.ElapsedNanos, LastError: b.LastError,
	}}, err
}
