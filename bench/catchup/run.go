package catchup

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/freshet-io/freshet/agent/cache"
)

// Run measures and prints. The last lines are what the bounds are set on.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	cfg.ApplyDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("catch-up: %w", err)
	}
	dir, err := os.MkdirTemp("", "freshet-bench-")
	if err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := newRig(ctx, &cfg, dir)
	if err != nil {
		return nil, err
	}
	defer r.close()
	report := &Report{cfg: cfg}
	list, err := r.fill(ctx)
	if err != nil {
		return nil, err
	}
	for n := range cfg.Pairs {
		var p pair
		if p.without, err = r.turn(ctx, load{}); err != nil {
			return nil, err
		}
		if p.with, err = r.turn(ctx, load{
			Groups: cfg.Groups, Gap: cfg.Gap, GroupRate: cfg.GroupRate, Ends: list, Name: fmt.Sprintf("group-%d", n),
		}); err != nil {
			return nil, err
		}
		report.pairs = append(report.pairs, p)
		report.printPair(n)
	}
	report.print()
	return report, nil
}

// fill makes the backlog and waits until it is history.
func (r *rig) fill(ctx context.Context) ([]int64, error) {
	began := time.Now()
	got, err := r.run(ctx, roleFill, r.load(load{Bytes: r.cfg.Backlog}))
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(r.cfg.Out, "backlog of %d MiB produced in %.0f s\n", r.cfg.Backlog>>20, time.Since(began).Seconds())
	began = time.Now()
	if err := r.settle(ctx); err != nil {
		return nil, err
	}
	if r.cfg.Settle > 0 {
		fmt.Fprintf(r.cfg.Out, "compacted in %.0f s\n", time.Since(began).Seconds())
	}
	return got.Ends, nil
}

func (r *rig) load(l load) load {
	l.Address, l.Partitions, l.RecordBytes = r.address, r.cfg.Partitions, r.cfg.RecordBytes
	return l
}

// measured is one turn.
type measured struct {
	result
	agentCPU, controlCPU float64 // s
	elapsed              time.Duration
	gets, getBytes       float64 // of catch-up
}

// cpuShare is what all processes used of all cores.
func (m *measured) cpuShare() float64 {
	used := m.agentCPU + m.controlCPU + m.CPUSeconds
	return used / m.elapsed.Seconds() / float64(runtime.NumCPU())
}

func (r *rig) turn(ctx context.Context, l load) (m measured, err error) {
	l = r.load(l)
	l.Rate, l.Duration, l.WarmUp = r.cfg.Rate, r.cfg.Duration, r.cfg.WarmUp
	before, err := r.usage(ctx)
	if err != nil {
		return m, err
	}
	began := time.Now()
	got, err := r.run(ctx, roleTurn, l)
	if err != nil {
		return m, err
	}
	after, err := r.usage(ctx)
	if err != nil {
		return m, err
	}
	return measured{
		result: *got, elapsed: time.Since(began), agentCPU: after.agentCPU - before.agentCPU,
		controlCPU: after.controlCPU - before.controlCPU, gets: after.gets - before.gets, getBytes: after.getBytes - before.getBytes,
	}, nil
}

// usage is what was used up to now.
func (r *rig) usage(ctx context.Context) (m measured, err error) {
	if m.agentCPU, err = r.agent.CPU(); err != nil {
		return m, err
	}
	if m.controlCPU, err = r.control.CPU(); err != nil {
		return m, err
	}
	m.gets, m.getBytes, err = r.gets(ctx)
	return m, err
}

// pair is a turn without groups and one with them, right behind each other.
type pair struct{ without, with measured }

// unit is the cache unit of compacted objects: the bound on GETs counts by it.
const unit = cache.PartUnit
