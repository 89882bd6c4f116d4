package merge_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/job/merge"
	"github.com/freshet-io/freshet/metadata/job"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/latency"
	"github.com/freshet-io/freshet/objstore/meter"
)

// modelled runs a plan at the latencies of s3-standard, on a driven clock on which the store alone takes time, and gives
// the MiB a second that it works off and the requests that it makes.
func modelled(t *testing.T, bucket objstore.Bucket, plan *job.Plan, inFlight int) (rate float64, asked meter.Counts) {
	t.Helper()
	model, err := latency.Preset("s3-standard")
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		metered := meter.New(latency.New(bucket, model, 1), nil)
		began := time.Now()
		_, err := merge.Run(t.Context(), plan, ignore, merge.Env{Bucket: metered, Prefix: prefix, InFlight: inFlight})
		require.NoError(t, err)
		rate = float64(bytesOf(plan)) / (1 << 20) / time.Since(began).Seconds()
		asked = metered.Counts()
	})
	return rate, asked
}

// TestRun_RateByPartsInFlight shows what parts side by side come to, nothing being in memory, and that they cost no
// request. An agent that takes in 82 MiB/s, as the published load gives each of six, has to rewrite twice that.
// `make bench-requests` runs it for jobs of the second level too.
func TestRun_RateByPartsInFlight(t *testing.T) {
	type size struct{ level, inputs, bytes int }
	sizes, inFlight := []size{{1, 32, 8 << 20}}, []int{4}
	if os.Getenv("FRESHET_REQUESTS") != "" {
		sizes, inFlight = append(sizes, size{2, 128, 32 << 20}), []int{2, 3, 4}
	}
	var table strings.Builder
	for _, s := range sizes {
		bucket, plan := uniform(s.inputs, s.bytes, 128, 64<<10)
		one, asked := modelled(t, bucket, plan, 1)
		fmt.Fprintf(&table, "level %d, %d MiB, MiB/s by parts in flight | 1: %3.0f |", s.level, s.inputs*s.bytes>>20, one)
		for _, n := range inFlight {
			rate, more := modelled(t, bucket, plan, n)
			fmt.Fprintf(&table, " %d: %3.0f |", n, rate)
			require.Greater(t, rate, 0.7*float64(n)*one, "%d parts in flight", n)
			for op := range asked {
				require.Equal(t, asked[op].Requests, more[op].Requests, "%s with %d parts in flight", objstore.Op(op), n)
			}
			if n == 4 {
				require.Greater(t, rate, 2*82., "MiB/s")
			}
		}
		fmt.Fprintf(&table, " %d GETs, %d parts\n", asked[objstore.OpGet].Requests, asked[objstore.OpPutPart].Requests)
	}
	t.Logf("\n%s", &table)
}
