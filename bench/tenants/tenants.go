package tenants

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// ErrBound is returned for a figure above its bound, if Config.Bounds is set.
var ErrBound = errors.New("a figure is above its bound")

// Run measures and prints the figures, one a line with its bound.
func Run(ctx context.Context, cfg Config) error {
	cfg.ApplyDefaults()
	if err := cfg.Validate(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "freshet-bench-")
	if err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := startRig(ctx, &cfg, dir)
	if err != nil {
		return err
	}
	defer r.close()
	return r.run(ctx)
}

func names(of string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%s-%04d", of, i))
	}
	return all
}

// run goes through the phases: loaded clusters without load, then all clusters idle, then faults under load.
func (r *rig) run(ctx context.Context) error {
	loaded, unused := names("loaded", r.cfg.Loaded), names("idle", r.cfg.Clusters)
	if _, err := r.create(ctx, loaded, true); err != nil {
		return err
	}
	var kafka []string
	for _, name := range loaded {
		address, err := r.startAgent(ctx, name)
		if err != nil {
			return err
		}
		kafka = append(kafka, address)
	}
	before, err := r.measure(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	ids, err := r.create(ctx, unused, false)
	if err != nil {
		return err
	}
	created := time.Since(began)
	idles, err := connect(ctx, r.addresses(), ids)
	if err != nil {
		return err
	}
	defer idles.close()
	fmt.Fprintf(r.cfg.Out, "%d idle virtual clusters written in %.1f s, connected with a group each in %.1f s; %d loaded ones; %d replicas\n",
		r.cfg.Clusters, created.Seconds(), (time.Since(began) - created).Seconds(), r.cfg.Loaded, replicas)
	after, err := r.measure(ctx)
	if err != nil {
		return err
	}
	if err := r.profile(ctx); err != nil {
		return err
	}
	report := &report{out: r.cfg.Out}
	report.idle(before, after, r.cfg.Clusters)
	var producers []*producer
	defer func() {
		for _, p := range producers {
			p.client.Close()
		}
	}()
	for _, address := range kafka {
		p, err := startProducer(ctx, address, r.cfg.Rate)
		if err != nil {
			return err
		}
		producers = append(producers, p)
	}
	f := faults{rig: r, idles: idles, producers: producers, report: report}
	if err := f.run(ctx); err != nil {
		return err
	}
	report.add("idle_heartbeats_refused", float64(idles.faults()), 0)
	if report.missed > 0 && r.cfg.Bounds {
		return fmt.Errorf("%d figures: %w", report.missed, ErrBound)
	}
	return nil
}
