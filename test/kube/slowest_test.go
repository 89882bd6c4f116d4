package kube

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/bench/process"
)

// steps are the histograms of the steps of a produce, in their order.
var steps = []struct{ component, metric, name string }{
	{agents, "freshet_writer_put_seconds", "PUT of a bundle"},
	{agents, "freshet_writer_commit_seconds", "commit"},
	{controlPlanes, "freshet_owner_group_seconds", "group of commands"},
	{controlPlanes, "freshet_metalog_append_seconds", "append to the log"},
}

// counts has the number of samples at or below each bound of the buckets of a histogram, by metric and pod.
type counts map[string]map[float64]uint64

// counts returns the counts of the steps' histograms in all pods that answer. A pod that ends does not answer.
func (s *scene) counts() counts {
	s.t.Helper()
	all := counts{}
	for component, port := range map[string]int{agents: 8080, controlPlanes: 8090} {
		for _, p := range s.pods(component) {
			metrics, err := process.ReadMetrics(s.t.Context(), place("1").HTTP(5*time.Second), fmt.Sprintf("http://%s:%d/metrics", p.Status.IP, port))
			if err != nil {
				continue
			}
			for _, step := range steps {
				if family := metrics[step.metric]; family != nil && step.component == component {
					all[step.metric+"/"+p.Metadata.UID] = buckets(family)
				}
			}
		}
	}
	return all
}

// buckets returns the sums over all series of a histogram.
func buckets(family *dto.MetricFamily) map[float64]uint64 {
	sums := map[float64]uint64{}
	for _, m := range family.Metric {
		for _, b := range m.Histogram.Bucket {
			sums[b.GetUpperBound()] += b.GetCumulativeCount()
		}
	}
	return sums
}

// slowest returns the bound of the highest bucket of each step with a sample between two readings, as the end of a log line.
func (before counts) slowest(after counts) string {
	var said []string
	for _, step := range steps {
		top := 0.0
		for series, now := range after {
			if !strings.HasPrefix(series, step.metric+"/") {
				continue
			}
			below := uint64(0) // samples between the readings in lower buckets
			for _, bound := range slices.Sorted(maps.Keys(now)) {
				n := now[bound] - before[series][bound]
				if n > below {
					top = max(top, bound)
				}
				below = n
			}
		}
		said = append(said, fmt.Sprintf("%s %.3g s", step.name, top))
	}
	return "; slowest of each step, at most: " + strings.Join(said, ", ")
}

func TestCounts_Slowest(t *testing.T) {
	const put = "freshet_writer_put_seconds/"
	before := counts{put + "a": {0.5: 1, 1: 2, 2: 3}}
	after := counts{put + "a": {0.5: 4, 1: 6, 2: 7}, put + "b": {0.5: 1, 1: 1, 2: 1}}
	require.Contains(t, before.slowest(after), "PUT of a bundle 1 s, commit 0 s")
	require.Contains(t, counts{}.slowest(after), "PUT of a bundle 2 s")
}
