package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/controlplane/job"
)

// TestJobs_FreshBytesCostNoGet: bundles that the agents of a zone have in memory are compacted without a GET, whichever
// of the agents runs the job, and nobody reads what he would not have to otherwise.
func TestJobs_FreshBytesCostNoGet(t *testing.T) {
	t.Parallel()
	const partitions, rounds = 12, 12
	c := newCluster(t, options{agents: 3, zones: 1, patient: true, jobs: &job.Settings{
		Interval: 100 * time.Millisecond, Lease: 15 * time.Second, First: job.FirstLevel{Bundles: 8, Age: time.Second},
	}})
	c.createTopic("t", partitions)
	for range rounds {
		for _, a := range c.agents {
			producer := c.pinned(a, kgo.RecordPartitioner(kgo.ManualPartitioner()))
			c.writeEach(producer, partitions)
			producer.Close()
		}
	}
	c.await("the end of the backlog", func() bool { return c.levels()[0] <= 1 && c.levels()[1] >= 3 })
	require.Zero(t, c.audit.gets.Load())
	require.Positive(t, total(c.agents, "freshet_peer_requests_total"), "of each other's bundles")
	require.Zero(t, total(c.agents, "freshet_peer_fallbacks_total"))
}
