package compare

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/bench/observe"
	"github.com/freshet-io/freshet/bench/process"
)

// Names of the systems, as reports show them.
const (
	nameKafka   = "Apache Kafka"
	nameFreshet = "Freshet"
)

// system can be started any number of times, each with empty data.
type system interface {
	name() string
	start(ctx context.Context, dir string) (*instance, error)
}

// instance is a running system.
type instance struct {
	bootstrap string // host:port
	targets   []observe.Target
	processes []*process.Process // in the order they were started
}

// stop stops the processes, the last started first.
func (i *instance) stop() {
	for n := len(i.processes) - 1; n >= 0; n-- {
		i.processes[n].Stop()
	}
}

// watch adds a process to what is stopped and observed. metrics may be empty.
func (i *instance) watch(p *process.Process, name, metrics string, apart bool) {
	i.processes = append(i.processes, p)
	i.targets = append(i.targets, observe.Target{Name: name, PID: p.PID(), Metrics: metrics, Apart: apart})
}

// startLimit bounds how long a server may take to answer after its start: a JVM on a busy small machine takes long.
const startLimit = 90 * time.Second

// await polls until ready gives no error. It gives up when the process ends or startLimit is over, and then shows the end
// of its log.
func await(ctx context.Context, p *process.Process, log string, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no answer in %s: %w\n%s", startLimit, err, tail(log))
		case <-p.Done():
			return fmt.Errorf("it ended: %s", tail(log))
		case <-tick.C:
		}
	}
}

// tail gives the end of a log.
func tail(log string) string {
	const most = 2 << 10
	out, err := os.ReadFile(log)
	if err != nil {
		return err.Error()
	}
	return filepath.Base(log) + " ends with:\n" + string(out[max(0, len(out)-most):])
}

// pings gives a function that asks a Kafka endpoint for its versions and metadata.
func pings(bootstrap string) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
		if err != nil {
			return fmt.Errorf("make client: %w", err)
		}
		defer client.Close()
		return client.Ping(ctx)
	}
}
