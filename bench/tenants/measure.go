package tenants

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/freshet-io/freshet/bench/process"
	"github.com/freshet-io/freshet/internal/wait"
)

// usage is what both replicas use together, and rates over one measurement.
type usage struct {
	resident, heap      float64 // bytes; heap and stacks of the Go runtime
	series              float64 // of virtual clusters
	streams, goroutines float64 // goroutines of agents' streams, and all others
	cores               float64
	writes, reads       float64 // of etcd, a second
	requests            float64 // to the object store, a second
	scrape              float64 // seconds of a core for the metrics of one replica
}

// counts are totals.
type counts struct {
	writes, reads, requests float64
}

// afterScrape is the time after a scrape in which the garbage collector may still run because of it.
const afterScrape = 2 * time.Second

// measure waits until the replicas have settled, and measures them.
func (r *rig) measure(ctx context.Context) (u usage, err error) {
	if err := wait.For(ctx, r.cfg.Settle); err != nil {
		return u, err
	}
	// A scrape of a thousand virtual clusters costs about a third of a second of CPU, and garbage. So the processors' time is taken within the counts.
	before, err := r.counts(ctx)
	if err != nil {
		return u, err
	}
	began := time.Now()
	if err := wait.For(ctx, afterScrape); err != nil {
		return u, err
	}
	idle, err := r.cpu()
	if err != nil {
		return u, err
	}
	from := time.Now()
	if err := wait.For(ctx, r.cfg.Duration); err != nil {
		return u, err
	}
	busy, err := r.cpu()
	if err != nil {
		return u, err
	}
	u.cores = (busy - idle) / time.Since(from).Seconds()
	after, err := r.counts(ctx)
	if err != nil {
		return u, err
	}
	scraped, err := r.cpu()
	if err != nil {
		return u, err
	}
	u.scrape = (scraped - busy) / replicas
	seconds := time.Since(began).Seconds()
	u.requests = (after.requests - before.requests) / seconds
	u.writes, u.reads = (after.writes-before.writes)/seconds, (after.reads-before.reads)/seconds
	for _, p := range r.planes {
		if err := p.size(ctx, &u); err != nil {
			return u, err
		}
	}
	return u, nil
}

// cpu returns the seconds that all replicas have taken of a core.
func (r *rig) cpu() (all float64, err error) {
	for _, p := range r.planes {
		one, err := p.CPU()
		if err != nil {
			return 0, err
		}
		all += one
	}
	return all, nil
}

func (r *rig) counts(ctx context.Context) (c counts, err error) {
	for _, p := range r.planes {
		m, err := process.ReadMetrics(ctx, http.DefaultClient, p.http+"/metrics")
		if err != nil {
			return c, err
		}
		c.requests += m.Sum("freshet_objstore_requests_total")
	}
	m, err := process.ReadMetrics(ctx, http.DefaultClient, "http://"+r.etcdMetrics+"/metrics")
	if err != nil {
		return c, err
	}
	// A put or deletion of a transaction counts by itself.
	c.writes = m.Sum("etcd_mvcc_put_total") + m.Sum("etcd_mvcc_delete_total")
	c.reads = m.Sum("etcd_mvcc_range_total")
	return c, nil
}

// ofIdle is part of every series of an idle virtual cluster. Loaded ones get new series while they run.
var ofIdle = []byte(`virtual_cluster="idle`)

// size adds what the replica has at the moment.
func (p *plane) size(ctx context.Context, u *usage) error {
	resident, err := p.Memory()
	if err != nil {
		return err
	}
	text, err := get(ctx, p.http+"/metrics")
	if err != nil {
		return err
	}
	stacks, err := get(ctx, p.http+"/debug/pprof/goroutine?debug=1")
	if err != nil {
		return err
	}
	m, err := process.ReadMetrics(ctx, http.DefaultClient, p.http+"/metrics")
	if err != nil {
		return err
	}
	u.resident += float64(resident)
	u.heap += m.Sum("go_memstats_heap_inuse_bytes") + m.Sum("go_memstats_stack_inuse_bytes")
	u.series += float64(bytes.Count(text, ofIdle))
	streams, others, err := goroutines(string(stacks))
	u.streams += streams
	u.goroutines += others
	return err
}

// stackCount is the first line of a group of equal stacks in a profile of goroutines.
var stackCount = regexp.MustCompile(`^(\d+) @`)

// goroutines returns the number of goroutines of agents' streams and of all others, from a profile of debug level 1. Those of a stream are
// gRPC's, and those of its receiver and sender.
func goroutines(profile string) (streams, others float64, err error) {
	for group := range strings.SplitSeq(profile, "\n\n") {
		_, group, _ = strings.Cut("\n"+group, "\n")
		if rest, ok := strings.CutPrefix(group, "goroutine profile:"); ok {
			_, group, _ = strings.Cut(rest, "\n")
		}
		count := stackCount.FindStringSubmatch(group)
		if count == nil {
			continue
		}
		n, err := strconv.ParseFloat(count[1], 64)
		if err != nil {
			return 0, 0, fmt.Errorf("read a profile of goroutines: %w", err)
		}
		if strings.Contains(group, "google.golang.org/grpc") || strings.Contains(group, "controlplane/session.(*agent)") {
			streams += n
		} else {
			others += n
		}
	}
	return streams, others, nil
}

// profile writes profiles of all replicas into the directory of the settings.
func (r *rig) profile(ctx context.Context) error {
	if r.cfg.Profiles == "" {
		return nil
	}
	if err := os.MkdirAll(r.cfg.Profiles, 0o700); err != nil {
		return fmt.Errorf("directory of profiles: %w", err)
	}
	for i, p := range r.planes {
		for name, path := range map[string]string{
			"goroutines": "/debug/pprof/goroutine?debug=1", "heap": "/debug/pprof/heap?gc=1", "cpu": "/debug/pprof/profile?seconds=10", "metrics": "/metrics",
		} {
			got, err := get(ctx, p.http+path)
			if err == nil {
				err = os.WriteFile(filepath.Join(r.cfg.Profiles, fmt.Sprintf("%s-%d", name, i)), got, 0o600)
			}
			if err != nil {
				return fmt.Errorf("profile a replica: %w", err)
			}
		}
	}
	return nil
}
