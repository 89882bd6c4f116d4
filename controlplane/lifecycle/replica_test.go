package lifecycle_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/lifecycle"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/controlplane/replica"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/metalog/memlog"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
	"github.com/freshet-io/freshet/objstore/mem"
)

// A cluster at rest: what a deleted topic leaves behind goes though next to nothing is logged any more, over two
// snapshots that only garbage asks for, and over a change of owners.
func TestReplica_GarbageGoesWithoutTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, bucket := memlog.New(), mem.New()
		begin := func(name string) (o *owner.Owner, end func()) {
			log, _, err := store.Open(name, metalog.Config{})
			require.NoError(t, err)
			work, err := lifecycle.New(lifecycle.Config{
				Agents: &agents{bucket: bucket}, StoreTime: bucket.Now,
			})
			require.NoError(t, err)
			owned := make(chan *owner.Owner, 1)
			r, err := replica.New(replica.Config{
				Replica: name, Address: name + ":1", Log: log, Bucket: bucket, SnapshotPrefix: "vc/snapshots/",
				OnOwner: func(o *owner.Owner) func() { owned <- o; return func() {} },
				Beside: func(ctx context.Context, tn replica.Tenure) (wait func()) {
					return work.Start(ctx, lifecycle.Tenure{Owner: tn.Owner, Kept: tn.Kept, WantSnapshot: tn.WantSnapshot})
				},
			})
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- r.Run(ctx) }()
			return <-owned, func() {
				cancel()
				require.NoError(t, <-ended)
			}
		}
		bundles := func() []string {
			infos, err := bucket.List(t.Context(), "", "", 1000)
			require.NoError(t, err)
			var keys []string
			for _, info := range infos {
				if strings.HasPrefix(info.Key, prefix) {
					keys = append(keys, info.Key)
				}
			}
			return keys
		}
		o, end := begin("a")
		propose := func(c metadata.Command) {
			result, _, err := o.Propose(t.Context(), c)
			require.NoError(t, err)
			require.NoError(t, result.Err)
		}
		tp := id.TopicPartition{Topic: id.Topic{1}}
		propose(&metadata.CreateTopic{ID: tp.Topic, Name: "t", Partitions: 1})
		propose(&metadata.OpenSession{Instance: "i"})
		name := id.Submission{Session: 1, N: 1}
		require.NoError(t, bucket.Put(t.Context(), bundle.Key(prefix, name.Bundle()), objstore.NewBody(make([]byte, 200))))
		var b commit.Builder
		b.Reset(commit.Header{Submission: name, Bytes: 200})
		b.Section(commit.Section{Partition: tp, Position: 16})
		b.Batch(commit.Batch{Records: 1, Bytes: 100, MaxTimestamp: time.Now().UnixMilli(), ProducerID: -1})
		propose(&metadata.CommitBundle{Encoded: b.AppendTo(nil)})
		time.Sleep(time.Hour)
		require.Len(t, bundles(), 1)
		propose(&metadata.DeleteTopic{ID: tp.Topic})
		time.Sleep(14 * time.Minute)
		require.Len(t, bundles(), 1, "the grace is not over")
		end()
		o, end = begin("b")
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		require.Empty(t, bundles())
		_, err := o.Read(func(s *metadata.State) {
			require.Empty(t, slices.Collect(func(yield func(id.Bundle) bool) {
				for name := range s.DeadBundles() {
					if !yield(name) {
						return
					}
				}
			}))
		})
		require.NoError(t, err)
		end()
	})
}
