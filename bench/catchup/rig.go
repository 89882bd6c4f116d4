package catchup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
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
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find own executable: %w", err)
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
		if done, err := ok(); done || err != nil {
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
		var open, fresh, read float64
		var errs [3]error
		read, errs[0] = scrape(ctx, r.controlHTTP, "freshet_jobs_input_bytes_total", "level", "1")
		fresh, errs[1] = scrape(ctx, r.controlHTTP, "freshet_jobs_backlog_bundles")
		open, errs[2] = scrape(ctx, r.controlHTTP, "freshet_jobs_open")
		if quiet++; read < float64(r.cfg.Backlog)*leastCompacted || fresh >= 2 || open > 0 {
			quiet = 0
		}
		return quiet == leastQuiet, errors.Join(errs[:]...)
	})
}

// leastQuiet is for how many seconds there must be no job: the second level begins some time after the first.
const leastQuiet = 5

// leastCompacted is the part of the backlog that jobs must have read: figures of the planner are of its last round.
const leastCompacted = 0.9

// gets is how many GETs catch-up took so far, and the bytes they brought.
func (r *rig) gets(ctx context.Context) (count, bytes float64, err error) {
	var tables float64
	var errs [3]error
	count, errs[0] = scrape(ctx, r.agentHTTP, "freshet_cache_gets_total", "class", "catch_up")
	tables, errs[1] = scrape(ctx, r.agentHTTP, "freshet_cache_seek_table_reads_total")
	bytes, errs[2] = scrape(ctx, r.agentHTTP, "freshet_cache_get_bytes_total", "class", "catch_up")
	return count + tables, bytes, errors.Join(errs[:]...)
}

// maxMetrics bounds the answer of a metrics endpoint that is read, in bytes.
const maxMetrics = 32 << 20

// scrape sums up a metric, of those with a label's value if one is named.
func scrape(ctx context.Context, address, name string, label ...string) (sum float64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return 0, fmt.Errorf("ask for metrics: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, fmt.Errorf("ask for metrics: %w", err)
	}
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(io.LimitReader(resp.Body, maxMetrics))
	if err != nil {
		return 0, fmt.Errorf("read metrics of %s: %w", address, err)
	}
	for _, m := range families[name].GetMetric() {
		matches := len(label) == 0
		for _, l := range m.GetLabel() {
			matches = matches || l.GetName() == label[0] && l.GetValue() == label[1]
		}
		if matches {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return sum, nil
}
