package catchup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/bench/plane"
	"github.com/freshet-io/freshet/bench/process"
)

// rig is an agent, which is its zone's only one, and a control plane.
type rig struct {
	cfg         *Config
	control     *process.Process
	controlHTTP string
	agent       *process.Process
	agentHTTP   string
	address     string // for Kafka clients
}

func newRig(ctx context.Context, cfg *Config, dir string) (_ *rig, err error) {
	r := &rig{cfg: cfg}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	if err := makeDirs(dir); err != nil {
		return nil, err
	}
	var line string
	if r.control, line, err = process.StartRole(ctx, roleCommand, roleControl, controlRole{Dir: dir, CompactAfter: cfg.CompactAfter}); err != nil {
		return nil, err
	}
	var grpc string
	if grpc, r.controlHTTP, err = plane.Addresses(line); err != nil {
		return nil, err
	}
	return r, r.startAgent(ctx, dir, grpc)
}

func (r *rig) startAgent(ctx context.Context, dir, grpc string) error {
	addresses, err := process.FreeAddresses(2)
	if err != nil {
		return err
	}
	r.address, r.agentHTTP = addresses[0], addresses[1]
	exe, err := process.Freshet()
	if err != nil {
		return err
	}
	cmd := exec.Command(exe, "agent", "--virtual-cluster", plane.VirtualCluster, "--zone", "a", "--control-plane", grpc,
		"--bucket", "file://"+objects(dir)+"?latency="+r.cfg.Model, "--kafka-listen", r.address,
		"--http-listen", r.agentHTTP, "--peer-listen", "none", "--memory-limit", r.cfg.Memory, "--log-level", "warn")
	cmd.Env = append(os.Environ(), "FRESHET_AGENT_KEY="+plane.AgentKey)
	if r.agent, err = process.Start(ctx, cmd); err != nil {
		return err
	}
	return process.AwaitBroker(ctx, kgo.SeedBrokers(r.address))
}

// until asks again and again.
func until(ctx context.Context, every time.Duration, ok func() (bool, error)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		done, err := ok()
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// close stops the processes, the agent first so that it can say goodbye.
func (r *rig) close() {
	for _, p := range []*process.Process{r.agent, r.control} {
		if p != nil {
			p.Stop()
		}
	}
}

// run does a load in a process of its own.
func (r *rig) run(ctx context.Context, role string, l load) (*result, error) {
	client, line, err := process.StartRole(ctx, roleCommand, role, l)
	if err != nil {
		return nil, err
	}
	client.Stop()
	var got result
	if err := json.Unmarshal([]byte(line), &got); err != nil {
		return nil, fmt.Errorf("decode result of %s: %w", role, err)
	}
	return &got, nil
}

// settle waits until what agents wrote is compacted, up to a pair of bundles, and no job is open.
func (r *rig) settle(ctx context.Context) error {
	if r.cfg.Settle == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.cfg.Settle, errors.New("the backlog was not compacted in time"))
	defer cancel()
	quiet := 0
	return until(ctx, time.Second, func() (bool, error) {
		m, err := process.ReadMetrics(ctx, http.DefaultClient, "http://"+r.controlHTTP+"/metrics")
		if err != nil {
			return false, err
		}
		read, fresh, open := m.By("level", "freshet_jobs_input_bytes_total")["1"], m.Sum("freshet_jobs_backlog_bundles"), m.Sum("freshet_jobs_open")
		if quiet++; read < float64(r.cfg.Backlog)*leastCompacted || fresh >= 2 || open > 0 {
			quiet = 0
		}
		return quiet == leastQuiet, nil
	})
}

// leastQuiet is for how many seconds there must be no job: the second level begins some time after the first.
const leastQuiet = 5

// leastCompacted is the part of the backlog that jobs must have read: figures of the planner are of its last round.
const leastCompacted = 0.9

// gets is how many GETs catch-up took so far, and the bytes they brought.
func (r *rig) gets(ctx context.Context) (count, bytes float64, err error) {
	m, err := process.ReadMetrics(ctx, http.DefaultClient, "http://"+r.agentHTTP+"/metrics")
	if err != nil {
		return 0, 0, err
	}
	const class = "catch_up"
	count = m.By("class", "freshet_cache_gets_total")[class] + m.Sum("freshet_cache_seek_table_reads_total")
	return count, m.By("class", "freshet_cache_get_bytes_total")[class], nil
}
