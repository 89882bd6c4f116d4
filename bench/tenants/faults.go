package tenants

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/freshet-io/freshet/internal/wait"
)

const (
	lease      = 5 * time.Second // of a replica, the default
	quiet      = 3 * time.Second // of load without a fault
	faultLimit = 2 * time.Minute // from a fault to the end of its consequences
)

// faults end replicas while producers send.
type faults struct {
	*rig
	idles     *idles
	producers []*producer
	report    *report
}

func (f *faults) run(ctx context.Context) error {
	if err := f.awaitLoad(ctx, time.Now()); err != nil {
		return err
	}
	if _, errs := f.take(); len(errs) > 0 {
		return fmt.Errorf("producers before any fault: %w", errors.Join(errs...))
	}
	if err := wait.For(ctx, quiet); err != nil {
		return err
	}
	longest, errs := f.take()
	f.report.stall("without a fault", longest, len(errs))
	if err := f.kill(ctx, f.planes[0]); err != nil {
		return err
	}
	// The other replica owns every virtual cluster now, so its end moves all of them.
	for _, p := range []*plane{f.planes[1], f.planes[0]} {
		if err := f.restart(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// kill ends a replica without notice, and starts it again after all virtual clusters have an owner.
func (f *faults) kill(ctx context.Context, p *plane) error {
	process, err := os.FindProcess(p.PID())
	if err != nil {
		return fmt.Errorf("find replica: %w", err)
	}
	began := time.Now()
	if err := process.Signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill replica: %w", err)
	}
	<-p.Done()
	if err := f.awaitLoad(ctx, began); err != nil {
		return err
	}
	// The streams of the killed replica have ended before its lease.
	if err := wait.For(ctx, lease-time.Since(began)); err != nil {
		return err
	}
	all, err := f.awaitIdle(ctx, began)
	if err != nil {
		return err
	}
	longest, errs := f.take()
	f.report.add("kill_longest_produce_seconds", longest.Seconds(), lease.Seconds()+2)
	f.report.add("kill_all_owned_seconds", all.Seconds(), 30)
	f.report.add("kill_client_errors", float64(len(errs)), 0)
	return f.start(ctx, p)
}

// restart ends a replica by SIGTERM, and starts it again.
func (f *faults) restart(ctx context.Context, p *plane) error {
	began := time.Now()
	p.Stop()
	stopped := time.Since(began)
	if err := f.awaitLoad(ctx, time.Now()); err != nil {
		return err
	}
	all, err := f.awaitIdle(ctx, began)
	if err != nil {
		return err
	}
	if err := f.start(ctx, p); err != nil {
		return err
	}
	longest, errs := f.take()
	fmt.Fprintf(f.cfg.Out, "SIGTERM: the replica ended after %.2f s, the last idle virtual cluster had a stream after %.2f s\n", stopped.Seconds(), all.Seconds())
	f.report.stall("sigterm", longest, len(errs))
	return nil
}

func (f *faults) start(ctx context.Context, p *plane) error {
	if err := f.startPlane(ctx, p); err != nil {
		return err
	}
	if err := p.awaitReady(ctx); err != nil {
		return err
	}
	return wait.For(ctx, quiet)
}

func (f *faults) awaitIdle(ctx context.Context, since time.Time) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, faultLimit)
	defer cancel()
	return f.idles.awaitOwned(ctx, since)
}

// awaitLoad waits until each producer has an acknowledgement of a record sent after since.
func (f *faults) awaitLoad(ctx context.Context, since time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, faultLimit)
	defer cancel()
	for _, p := range f.producers {
		for !p.since(since) {
			if err := wait.For(ctx, poll); err != nil {
				return fmt.Errorf("a loaded virtual cluster acknowledges nothing: %w", err)
			}
		}
	}
	return nil
}

// take returns the longest time to an acknowledgement of all producers, and all their errors.
func (f *faults) take() (longest time.Duration, errs []error) {
	for _, p := range f.producers {
		took, failed := p.take()
		longest = max(longest, took)
		errs = append(errs, failed...)
	}
	return longest, errs
}
