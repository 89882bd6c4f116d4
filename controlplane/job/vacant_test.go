package job_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata"
)

// However many bundles wait for topics that can be taken back, what is committed after them is compacted.
func TestFirst_ManyVacantBundlesHideNothing(t *testing.T) {
	in(t, func(w *world) {
		t := w.t
		a := w.agent()
		gone, topic := w.topic(1, 1), w.topic(2, 1)
		for range 4500 {
			w.commit(a, 100, tp(gone, 0))
		}
		w.must(&metadata.DeleteTopic{ID: gone, KeepMs: 1e8})
		for range 8 {
			w.commit(a, 100, tp(topic, 0))
		}
		r := w.own(a)
		defer r.stop()
		for end := time.Now().Add(3 * time.Hour); time.Now().Before(end); {
			for _, p := range r.rounds(1) {
				require.Equal(t, topic, p.Partitions[0].ID.Topic)
				r.finish(p)
			}
			if w.levels()[1] > 0 {
				return
			}
		}
		require.Fail(t, "nothing was compacted for hours")
	})
}
