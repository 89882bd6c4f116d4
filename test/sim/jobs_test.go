package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/job"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/internal/ledger"
	"github.com/freshet-io/freshet/metadata"
)

// quickJobs plan often and compact little: what takes hours otherwise takes seconds.
func quickJobs() *job.Settings {
	return &job.Settings{
		Interval: 100 * time.Millisecond, Lease: 15 * time.Second,
		First:  job.FirstLevel{Bundles: 8, Age: time.Second},
		Second: job.SecondLevel{Extents: 4, Age: 5 * time.Second},
	}
}

// levels counts the live bundles by level; the zero value while there is no owner.
func (c *cluster) levels() (n [3]int) {
	if o := c.tenure.Load(); o != nil {
		_, _ = o.ReadFrozen(func(s *metadata.State) { // without an owner none are counted
			for _, b := range s.Bundles() {
				n[b.Level]++
			}
		})
	}
	return n
}

// Bundles are compacted by both levels while records come in, an agent dies with a job in its hands, and the owner
// changes: few bundles are left, and every agent reads every record as before.
func TestJobs_RecordsStay(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{seed: 5, succession: true, agents: 3, jobs: quickJobs(), limits: session.Limits{SessionTimeout: time.Second}})
	l := c.startLoad("t", 4, 4, 20*time.Millisecond)
	c.await("the second level", func() bool { return c.levels()[2] > 0 })
	for range 3 {
		c.agentList()[0].crash()
		c.startAgent()
		c.succeeded(c.dethrone())
		done := c.levels()[2]
		l.more(200)
		c.await("further jobs", func() bool { return c.levels()[2] > done })
	}
	l.stop(ledger.Rules{})
	c.await("the end of the backlog", func() bool { return c.levels()[0] <= 1 })
	l.check(ledger.Rules{})
	list, err := c.owner().jobs.List()
	require.NoError(t, err)
	require.NotEmpty(t, list)
}
