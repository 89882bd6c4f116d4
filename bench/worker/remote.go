package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/freshet-io/freshet/bench/load"
)

// ErrRemote says that a worker could not be reached or answered with an error.
var ErrRemote = errors.New("worker")

// Remote is a worker in another process, which Serve answers for.
type Remote struct {
	base   string
	client *http.Client

	mu   sync.Mutex
	beat context.CancelFunc // nil unless a run is under way
	done chan struct{}      // closed when the beat has ended
}

var _ Worker = (*Remote)(nil)

// NewRemote takes the address of a worker, such as http://10.0.0.7:8080.
func NewRemote(address string) (*Remote, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%w address %q: want http://host:port", ErrRemote, address)
	}
	return &Remote{base: strings.TrimSuffix(address, "/"), client: &http.Client{Transport: &http.Transport{}, Timeout: longestCall}}, nil
}

// call posts a request and reads the answer.
func call[Answer any](ctx context.Context, r *Remote, path string, request any) (answer Answer, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w %s%s: %w", ErrRemote, r.base, path, err)
		}
	}()
	body, err := json.Marshal(request)
	if err != nil {
		return answer, err
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, r.base+path, bytes.NewReader(body))
	if err != nil {
		return answer, err
	}
	post.Header.Set("Content-Type", "application/json")
	response, err := r.client.Do(post)
	if err != nil {
		return answer, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, largestAnswer))
	if err != nil {
		return answer, fmt.Errorf("read answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		var f failure
		if json.Unmarshal(content, &f) != nil || f.Error == "" {
			return answer, fmt.Errorf("status %s", response.Status)
		}
		return answer, errors.New(f.Error)
	}
	return answer, json.Unmarshal(content, &answer)
}

// tell is a call whose answer says nothing.
func (r *Remote) tell(ctx context.Context, path string, request any) error {
	_, err := call[none](ctx, r, path, request)
	return err
}

// Init prepares the worker, and lets it hear from here until Stop, also when nothing else is to be said.
func (r *Remote) Init(ctx context.Context, setup Setup) ([]string, error) {
	r.endBeat()
	answer, err := call[warningsBody](ctx, r, pathInit, setup)
	if err == nil {
		r.startBeat()
	}
	return answer.Warnings, err
}

func (r *Remote) startBeat() {
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	r.beat, r.done = cancel, done
	go func() {
		defer close(done)
		ticker := time.NewTicker(beatEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				_, _ = r.Counters(ctx) // whoever needs the answer will see the error
			}
		}
	}()
}

func (r *Remote) endBeat() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.beat == nil {
		return
	}
	r.beat()
	<-r.done
	r.beat = nil
}

// CreateTopics makes topics.
func (r *Remote) CreateTopics(ctx context.Context, topics Topics) error {
	return r.tell(ctx, pathTopics, topics)
}

// CreateProducers makes producers.
func (r *Remote) CreateProducers(ctx context.Context, topics []string) error {
	return r.tell(ctx, pathProducers, topics)
}

// CreateConsumers makes consumers.
func (r *Remote) CreateConsumers(ctx context.Context, subscriptions []load.Subscription) error {
	return r.tell(ctx, pathConsumers, subscriptions)
}

// Probe sends with each producer.
func (r *Remote) Probe(ctx context.Context) error { return r.tell(ctx, pathProbe, none{}) }

// StartLoad begins to send.
func (r *Remote) StartLoad(ctx context.Context, l Load) error { return r.tell(ctx, pathStart, l) }

// SetRate changes the rate.
func (r *Remote) SetRate(ctx context.Context, change RateChange) error {
	return r.tell(ctx, pathRate, change)
}

// PauseConsumers stops polling.
func (r *Remote) PauseConsumers(ctx context.Context) error { return r.tell(ctx, pathPause, none{}) }

// ResumeConsumers polls again.
func (r *Remote) ResumeConsumers(ctx context.Context) error { return r.tell(ctx, pathResume, none{}) }

// ResetLatencies forgets latencies.
func (r *Remote) ResetLatencies(ctx context.Context) error { return r.tell(ctx, pathReset, none{}) }

// Counters gives totals.
func (r *Remote) Counters(ctx context.Context) (load.Counters, error) {
	return call[load.Counters](ctx, r, pathCounters, none{})
}

// Period gives what happened since the call before.
func (r *Remote) Period(ctx context.Context) (Period, error) {
	body, err := call[periodBody](ctx, r, pathPeriod, none{})
	if err != nil {
		return Period{}, err
	}
	return body.decode()
}

// Cumulative gives latencies since ResetLatencies.
func (r *Remote) Cumulative(ctx context.Context) (load.Latencies, error) {
	encoded, err := call[load.Encoded](ctx, r, pathTotal, none{})
	if err != nil {
		return load.Latencies{}, err
	}
	return encoded.Decode()
}

// StopLoad ends sending.
func (r *Remote) StopLoad(ctx context.Context) error { return r.tell(ctx, pathStopLoad, none{}) }

// Stop ends the run.
func (r *Remote) Stop(ctx context.Context) error {
	r.endBeat()
	defer r.client.CloseIdleConnections()
	return r.tell(ctx, pathStop, none{})
}
