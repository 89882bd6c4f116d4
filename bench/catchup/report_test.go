package catchup

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestReport_MediansOfPairsBesideTheirBounds(t *testing.T) {
	var out strings.Builder
	cfg := Default()
	cfg.Out, cfg.Backlog, cfg.Rate = &out, 400<<20, 20<<20
	r := Report{cfg: cfg}
	for _, tail := range []time.Duration{200, 100, 150} { // ms
		r.pairs = append(r.pairs, pair{
			without: measured{result: result{Produce99: 100 * time.Millisecond, Tail99: 100 * time.Millisecond}},
			with: measured{
				result: result{
					Produce99: 110 * time.Millisecond, Tail99: tail * time.Millisecond, CatchUp: 1200 << 20, Busy: 10 * time.Second,
				},
				elapsed: 20 * time.Second, gets: 60,
			},
		})
	}
	r.print()
	require.Equal(t, `catchup_over_produce_rate            6.00  (at least 5)
produce_p99_ratio                    1.10  (at most 1.3)
tail_p99_ratio                       1.50  (at most 1.3)  MISSED
cpu_share                            0.00  (below 0.7)
gets_over_backlog_units              0.60  (at most 1.2)
`, out.String())
}

func TestBusy_CountsOverlapsOnce(t *testing.T) {
	require.Equal(t, time.Duration(25), busy([]span{{30, 40}, {0, 10}, {5, 15}, {6, 7}}))
	require.Zero(t, busy(nil))
}

func TestBacklog_EndsWhenAllPartitionsDid(t *testing.T) {
	b := backlog{next: make([]int64, 2), ends: []int64{2, 1}}
	take := func(partition int32, offset int64) {
		b.take(&kgo.Record{Partition: partition, Offset: offset, Value: []byte("v")})
	}
	take(0, 0)
	take(1, 0)
	take(1, 1) // beyond the backlog
	require.False(t, b.done())
	take(0, 1)
	require.True(t, b.done())
	require.Equal(t, int64(3), b.bytes)
	require.NoError(t, b.err)
	take(0, 3)
	require.ErrorContains(t, b.err, "partition 0 gave offset 3, not 2")
}

func TestConfig_Validate(t *testing.T) {
	c := Default()
	require.NoError(t, c.Validate())
	c.RecordBytes, c.Groups, c.WarmUp = 4, -1, c.Duration
	err := c.Validate()
	require.ErrorContains(t, err, "want a record")
	require.ErrorContains(t, err, "groups")
	require.ErrorContains(t, err, "warm-up")
}
