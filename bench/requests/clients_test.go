package requests

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/freshet-io/freshet/agent/cache"
	"github.com/freshet-io/freshet/agent/writer"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

// tick is how often an agent takes batches in.
const tick = 5 * time.Millisecond

// produce takes batches in at a rate until ctx ends: what clients send, in partitions chosen evenly.
func (a *agent) produce(ctx context.Context, bytesPerSecond float64) {
	rng := rand.New(rand.NewPCG(seed, uint64(a.number)))
	began, sent := time.Now(), 0
	for ctx.Err() == nil {
		time.Sleep(tick) // sleeps: in a synctest bubble, whose clock it drives
		due := int(time.Since(began).Seconds() * bytesPerSecond / float64(a.w.load.batch))
		var batches []writer.Batch
		for ; sent < due; sent++ {
			batches = append(batches, a.w.producerBatch(rng.Int32N(a.w.load.partitions)))
		}
		if len(batches) > 0 {
			a.route.Add(ctx, batches)
		}
	}
}

// producerBatch is what a client sends to a partition.
func (w *world) producerBatch(partition int32) writer.Batch {
	return writer.Batch{
		Partition: id.TopicPartition{Topic: topic, Partition: partition}, Bytes: w.batch,
		Commit: commit.Batch{
			Records: int32(w.load.batch / recordBytes), Bytes: int32(w.load.batch), MaxTimestamp: time.Now().UnixMilli(),
			ProducerID: commit.NoProducer,
		},
	}
}

// announced has the groups read what this agent serves of a bundle. They come one after the other, as their fetches do.
func (a *agent) announced(exts []placed) {
	var mine []placed
	for _, x := range exts {
		if a.serves[x.partition] {
			mine = append(mine, x)
		}
	}
	for group := range a.w.load.fanout {
		a.w.reads.Go(func() {
			time.Sleep(noticeTime + time.Duration(group)*groupsApart) // sleeps: as above
			a.consume(mine)
		})
	}
}

// How long after a commit its notice has come, and how far behind each other groups read.
const (
	noticeTime  = 2 * time.Millisecond
	groupsApart = 20 * time.Millisecond
)

// consume reads extents as fetches at the live edge do.
func (a *agent) consume(exts []placed) {
	for i := range exts {
		if _, settling := a.writer.Settling(exts[i].extent.Bundle); !settling {
			a.cache.Start(&exts[i].extent, cache.Live)
		}
	}
	for i := range exts {
		a.handedOver(exts[i].extent.Bundle)
		b, err := a.cache.Read(context.Background(), &exts[i].extent, cache.Live)
		if err != nil {
			a.w.t.Errorf("read: %v", err)
			return
		}
		a.w.read.Add(int64(b.Size()))
		b.Release()
	}
}
