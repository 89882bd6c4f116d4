package elastic

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/test/harness"
)

const (
	// drainLimit is how long an agent may take to end after SIGTERM (ARCHITECTURE.md, Stopping an agent), and for the process to be gone on a
	// machine that does other things too.
	drainLimit = 5*time.Second + 500*time.Millisecond
	// servedLimit bounds the wait for an agent's first answer; what it took is printed.
	servedLimit = 3 * time.Minute
	// look is how often a starting agent is looked at.
	look = 2 * time.Millisecond
	// probeTopic takes the records that find out whether an agent serves.
	probeTopic = "probe"
	// admin is the client id of what is no client under test. It names a zone, so that all agents show it the same.
	admin = "admin,zone=a"
)

// fleet is a cluster whose agents come and go.
type fleet struct {
	*harness.Cluster
	t     *testing.T
	drain time.Duration // bounds how long an agent may take to end

	mu      sync.Mutex
	served  []served
	drained []time.Duration // from SIGTERM to the end of the process
}

// served is how long an agent took from exec until it listened, was ready, and had acknowledged its first record.
type served struct {
	beside           int // agents started at the same time
	listening, ready time.Duration
	acked            time.Duration
}

func (s served) String() string {
	return fmt.Sprintf("listening %s, ready %s, first ack %s", ms(s.listening), ms(s.ready), ms(s.acked))
}

// start starts agents, all at once, and waits until each has acknowledged a record by itself.
func (f *fleet) start(agents ...int) {
	f.t.Helper()
	up, failed := sync.WaitGroup{}, atomic.Bool{}
	for _, i := range agents {
		a := f.Agents[i]
		began := time.Now()
		a.Launch()
		up.Go(func() {
			s, err := firstServed(f.t.Context(), a, began)
			if err != nil {
				f.t.Errorf("%s does not serve: %v", a.Name, err)
				failed.Store(true)
				return
			}
			s.beside = len(agents)
			f.t.Logf("%s (zone %s): %s", a.Name, a.Zone, s)
			f.mu.Lock()
			defer f.mu.Unlock()
			f.served = append(f.served, s)
		})
	}
	up.Wait()
	require.False(f.t, failed.Load(), "an agent does not serve")
}

// stop terminates agents, all at once, and waits until they are gone.
func (f *fleet) stop(agents ...int) {
	f.t.Helper()
	down, failed := sync.WaitGroup{}, atomic.Bool{}
	for _, i := range agents {
		a := f.Agents[i]
		down.Go(func() {
			took, err := a.Terminate(f.drain)
			if err != nil {
				f.t.Errorf("%s does not end: %v", a.Name, err)
				failed.Store(true)
				return
			}
			f.t.Logf("%s (zone %s): ended within %s", a.Name, a.Zone, ms(took))
			f.mu.Lock()
			defer f.mu.Unlock()
			f.drained = append(f.drained, took)
		})
	}
	down.Wait()
	require.False(f.t, failed.Load(), "an agent does not end")
}

// firstServed watches an agent that was started at the time given until it has acknowledged a record.
func firstServed(ctx context.Context, a *harness.Agent, began time.Time) (s served, err error) {
	ctx, cancel := context.WithTimeout(ctx, servedLimit)
	defer cancel()
	acked := make(chan error, 1)
	go func() {
		err := again(ctx, func() error { return produceTo(ctx, a.Bootstrap) })
		s.acked = time.Since(began)
		acked <- err
	}()
	if err = again(ctx, func() error { return listens(ctx, a.Bootstrap) }); err == nil {
		s.listening = time.Since(began)
		err = again(ctx, func() error { return isReady(ctx, a.HTTP) })
		s.ready = time.Since(began)
	}
	return s, errors.Join(err, <-acked)
}

// again tries until it succeeds or ctx ends.
func again(ctx context.Context, try func() error) error {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

func listens(ctx context.Context, address string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

func isReady(ctx context.Context, address string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

// produceTo writes one record by the agent at an address, whatever Metadata says.
func produceTo(ctx context.Context, address string) error {
	if err := listens(ctx, address); err != nil {
		return err // cheaper than a client
	}
	d, err := harness.Dial(address)
	if err != nil {
		return err
	}
	defer d.Close()
	_, err = d.Produce(ctx, probeTopic, 0, "served")
	return err
}

// serves waits until the agents together have answered more than one further produce request.
func (f *fleet) serves(agents ...int) {
	f.t.Helper()
	requests := func() (sum float64, err error) {
		for _, i := range agents {
			n, err := harness.Metric(f.Agents[i].HTTP, "freshet_kafka_request_seconds_count", `api="Produce"`)
			if err != nil {
				return 0, err
			}
			sum += n
		}
		return sum, nil
	}
	before, err := requests()
	require.NoError(f.t, err)
	harness.Await(f.t, fmt.Sprintf("producers have come to agents %v", agents), func() bool {
		now, err := requests()
		return err == nil && now > before+1
	})
}

// validations returns how often clients validated positions at the agents that run. A position has no leader epoch to validate: librdkafka
// deadlocks if a broker leaves Metadata meanwhile (agent/fetch/DESIGN.md), and Java's classic consumer commits nothing meanwhile.
func (f *fleet) validations() (sum float64) {
	f.t.Helper()
	for _, a := range f.Agents {
		if a.Running() {
			n, err := a.Metric("freshet_kafka_request_seconds_count", `api="OffsetForLeaderEpoch"`)
			require.NoError(f.t, err)
			sum += n
		}
	}
	return sum
}

// running gives the addresses of the agents that there are.
func (f *fleet) running() (addresses []string) {
	for _, a := range f.Agents {
		if a.Running() {
			addresses = append(addresses, a.Bootstrap)
		}
	}
	return addresses
}

// client gives a client that ends with the test.
func (f *fleet) client() *kgo.Client {
	f.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(f.running()...), kgo.ClientID(admin))
	require.NoError(f.t, err)
	f.t.Cleanup(client.Close)
	return client
}

func ms(d time.Duration) string { return fmt.Sprintf("%.0f ms", float64(d)/float64(time.Millisecond)) }
