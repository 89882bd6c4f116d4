package cost

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
)

// A profiled load is longer than a round, so that the samples are many; it is not measured.
const profiledRounds = 4

// profile runs one more load and keeps CPU and allocation profiles of the agent under it, as Config.Profiles says:
// <shape>-<kind>-cpu.pprof and <shape>-<kind>-allocs.pprof. rate is how fast the last such load went, in bytes/s.
func (r *rig) profile(ctx context.Context, kind LoadKind, rate float64) error {
	if r.cfg.Profiles == "" {
		return nil
	}
	load := r.load(kind, r.agentAddr, profiledRounds*r.cfg.Bytes)
	if kind == Produce {
		if err := r.freshTopic(ctx); err != nil {
			return err
		}
		load.Topic = r.topic()
	}
	// Clients take a moment to begin and all profiles should lie within the load.
	length := max(time.Duration(0.7*float64(load.Bytes)/rate*float64(time.Second)).Truncate(time.Second), time.Second)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		_, err := measure(ctx, r.agent, load)
		return err
	})
	for file, path := range map[string]string{"cpu": "profile", "allocs": "allocs"} {
		group.Go(func() error {
			name := filepath.Join(r.cfg.Profiles, fmt.Sprintf("%s-%s-%s.pprof", r.shape.Name, kind, file))
			url := fmt.Sprintf("http://%s/debug/pprof/%s?seconds=%d", r.agentHTTP, path, int(length.Seconds()))
			return download(ctx, url, name)
		})
	}
	return group.Wait()
}

func download(ctx context.Context, url, name string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("take profile: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("take profile: status %s", resp.Status)
	}
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("keep profile: %w", err)
	}
	if _, err := io.Copy(f, resp.Body); err != nil {
		f.Close()
		return fmt.Errorf("keep profile: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("keep profile: %w", err)
	}
	return nil
}
