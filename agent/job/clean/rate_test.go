package clean_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/job/clean"
	"github.com/freshet-io/freshet/agent/job/clean/cleantest"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
	"github.com/freshet-io/freshet/objstore/latency"
)

// Parts of what is written go side by side, as many as the environment says: what a run takes at the latencies of
// s3-standard is the less, and is the same in the end.
func TestRun_SendsPartsSideBySide(t *testing.T) {
	value := make([]byte, 1<<20)
	rng := rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(value)
	took := map[int]time.Duration{}
	for _, inFlight := range []int{1, 3} {
		l := cleantest.New()
		var batches []kafkaproto.RecordBatch
		for i := range 24 {
			r := cleantest.Record{Key: fmt.Appendf(nil, "k%d", i), Value: value, Timestamp: start}
			batches = append(batches, (&cleantest.Batch{Records: []cleantest.Record{r}}).Make(t))
		}
		l.Append(t, batches...)
		model, err := latency.Preset("s3-standard")
		require.NoError(t, err)
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			o, err := clean.Run(t.Context(), l.Plan(l.High, spec), ignore, clean.Env{
				Bucket: latency.New(l.Bucket, model, 1), Metrics: l.Env().Metrics,
				Output: bundle.WriterConfig{PartBytes: objstore.MinPart, InFlight: inFlight},
			})
			require.NoError(t, err)
			require.Len(t, o.Bundles, 1)
			require.Greater(t, o.Bundles[0].Bytes, uint32(24<<20))
			took[inFlight] = time.Since(began)
		})
	}
	t.Logf("one part at a time %v, three %v", took[1], took[3])
	require.Less(t, took[3], took[1]*9/10)
}
