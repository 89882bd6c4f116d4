// Package latency measures how long producers wait for their acknowledgement, and how long records take to a consumer, over
// a bucket that is as slow as a model of an object store says (objstore/latency): idle and under load, for several PUT
// budgets, each beside its bound and beside the cost of that many PUTs.
//
// Everything of Freshet runs in one process, as `freshet dev` does, over a bucket in memory. Background jobs are off: they
// would read the bucket, which forgets what is no longer read. The process has as many threads as two would have, one of the
// agent's and one of the clients': the scheduler of one process looks at the network last, so that clients would read no answer
// before the agent has written all of them. Producers are idempotent and have at most five requests in
// flight, as clients do by default; so that this is no bound of what is measured, many of them take turns, each handing in a
// burst of records every burstEvery, and records of a burst share a batch.
//
// Every record is numbered. At the end each was acknowledged once, with the offset at which the consumer found it, and the
// consumer found it once; else the run fails.
package latency

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"runtime"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/bench/tco/catalog"
	model "github.com/freshet-io/freshet/objstore/latency"
)

// Names of models, as of objstore/latency.
const (
	ModelStandard = "s3-standard"
	ModelExpress  = "s3-express"
)

// Config of a run, which measures every combination of model, budget and load.
type Config struct {
	Models      []string              // default: both
	Budgets     []float64             // PUTs a second; default: what the bounds of each model are stated for (DefaultBudgets)
	Loads       []int64               // bytes a second, 0 for idle; default 0, 10 and 60 MiB/s
	Duration    time.Duration         // of each measurement, at least; default 20 s
	Puts        int                   // of the budget, that each measurement lasts at least; default 400
	Idle        time.Duration         // without load before each; the zone saves the PUTs of its budget meanwhile
	WarmUp      time.Duration         // before each; default 3 s
	RecordBytes int                   // default 1024
	Partitions  int                   // default 16
	Producers   int                   // of loads; default 64
	Hedge       bool                  // send slow PUTs a second time, as agents do by default
	Seed        uint64                // of models and idle intervals; default 1
	Chart       string                // file to draw a chart into, by its ending: .svg, .png, .html; "": none
	Out         io.Writer             // default: standard output
	Log         *zap.Logger           // default: none
	Progress    func(Point, *Figures) // told of each measurement; default: nobody
}

// DefaultBudgets are the PUT budgets that latencies over a model are stated for.
func DefaultBudgets(model string) []float64 {
	if model == ModelExpress {
		return []float64{40}
	}
	return []float64{4, 8, 16}
}

const mib = 1 << 20

// ApplyDefaults fills what is zero.
func (c *Config) ApplyDefaults() {
	if len(c.Models) == 0 {
		c.Models = []string{ModelStandard, ModelExpress}
	}
	if len(c.Loads) == 0 {
		c.Loads = []int64{0, 10 * mib, 60 * mib}
	}
	c.Duration = cmp.Or(c.Duration, 20*time.Second)
	c.Puts = cmp.Or(c.Puts, 400)
	c.WarmUp = cmp.Or(c.WarmUp, 3*time.Second)
	c.RecordBytes = cmp.Or(c.RecordBytes, 1024)
	c.Partitions = cmp.Or(c.Partitions, 16)
	c.Producers = cmp.Or(c.Producers, 64)
	c.Seed = cmp.Or(c.Seed, 1)
	if c.Out == nil {
		c.Out = os.Stdout
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if c.Progress == nil {
		c.Progress = func(Point, *Figures) {}
	}
}

// Validate reports all faults at once.
func (c *Config) Validate() error {
	var faults []error
	for _, name := range c.Models {
		_, err := model.Preset(name)
		faults = append(faults, err)
	}
	for _, budget := range c.Budgets {
		if budget <= 0 {
			faults = append(faults, fmt.Errorf("a PUT budget of %g a second", budget))
		}
	}
	for _, load := range c.Loads {
		if load < 0 || load > 0 && load < int64(c.RecordBytes) {
			faults = append(faults, fmt.Errorf("a load of %d bytes a second is less than one record", load))
		}
	}
	if c.RecordBytes < headBytes {
		faults = append(faults, fmt.Errorf("records of %d bytes hold no number and time: want %d", c.RecordBytes, headBytes))
	}
	if c.Duration <= 0 || c.Puts <= 0 || c.Idle < 0 || c.WarmUp < 0 || c.Partitions <= 0 || c.Producers <= 0 {
		faults = append(faults, errors.New("duration, PUTs, partitions and producers are positive, the warm-up is not negative"))
	}
	return errors.Join(append(faults, checkChart(c.Chart))...)
}

// Point is one combination that is measured.
type Point struct {
	Model  string
	Budget float64 // PUTs a second
	Load   int64   // bytes a second of values; 0: one record at a time, slower than the budget
}

// points are all combinations.
func (c *Config) points() (points []Point) {
	for _, name := range c.Models {
		budgets := c.Budgets
		if len(budgets) == 0 {
			budgets = DefaultBudgets(name)
		}
		for _, budget := range budgets {
			for _, load := range c.Loads {
				points = append(points, Point{Model: name, Budget: budget, Load: load})
			}
		}
	}
	return points
}

// Run measures all points, one after the other, and prints them as a table. Figures over their bounds are marked and are
// no error; the error is of a run that failed, or of records that were lost, doubled or misplaced.
func Run(ctx context.Context, cfg Config) ([]*Figures, error) {
	cfg.ApplyDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	prices, err := catalog.LoadPrices("")
	if err != nil {
		return nil, fmt.Errorf("prices: %w", err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2 * runtime.NumCPU()))
	var all []*Figures
	for _, p := range cfg.points() {
		price, err := priceOf(prices, p.Model)
		if err != nil {
			return nil, err
		}
		f, err := measure(ctx, &cfg, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		f.USDPuts, f.USDBytes = price.month(f.Puts, f.Rate)
		cfg.Progress(p, f)
		all = append(all, f)
	}
	if err := printTable(cfg.Out, all); err != nil {
		return nil, err
	}
	if cfg.Chart == "" {
		return all, nil
	}
	return all, writeChart(cfg.Chart, all)
}

// String names the point.
func (p Point) String() string {
	return fmt.Sprintf("%s, %g PUTs/s, %s", p.Model, p.Budget, p.load())
}

// seed makes the store's latencies at each point other ones: if they were drawn alike, what is rare in the first few hundred
// would be rare in the same way at all points.
func (p Point) seed() uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(p.String())) // never fails
	return h.Sum64()
}

func (p Point) load() string {
	if p.Load == 0 {
		return "idle"
	}
	return fmt.Sprintf("%g MiB/s", float64(p.Load)/mib)
}

// quantile gives the q-quantile (0 to 1) of durations, which it sorts.
func quantile(ds []time.Duration, q float64) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	slices.Sort(ds)
	return ds[int(q*float64(len(ds)-1)+0.5)]
}
