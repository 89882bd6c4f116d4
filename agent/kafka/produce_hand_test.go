package kafka

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/freshet-io/freshet/agent/recode"
	"github.com/freshet-io/freshet/agent/writer"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/internal/batchtest"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// lots notes how many bytes of batches each Add has.
type lots struct {
	BatchWriter
	bytes   []int
	windows []writer.Window // of each batch
}

func (l *lots) Add(ctx context.Context, batches []writer.Batch) *writer.Produce {
	sum := 0
	for i := range batches {
		sum += len(batches[i].Bytes)
		l.windows = append(l.windows, batches[i].Window)
	}
	l.bytes = append(l.bytes, sum)
	return l.BatchWriter.Add(ctx, batches)
}

// addUnpacked adds the topic "unpacked" (id 7, compression.type uncompressed, 50 partitions).
func (r *produceRig) addUnpacked() {
	r.t.Helper()
	topicNames[7] = "unpacked"
	r.catalogue.OnCatalogue(&api.Catalogue{Index: 3, Topics: []*api.Topic{
		{Id: topicID(7), Name: "unpacked", Partitions: 50, Configs: map[string]string{"compression.type": "uncompressed"}},
	}})
	_, err := r.seq.do(&metadata.CreateTopic{ID: id.Topic(topicID(7)), Name: "unpacked", Partitions: 50})
	require.NoError(r.t, err)
}

// TestProduce_HoldsLittleOfWhatItUnpacks: a request of 50 KB that comes to 25 MB is taken, in its order and with the result of
// each partition, and of what it comes to no more is held than there is memory for.
func TestProduce_HoldsLittleOfWhatItUnpacks(t *testing.T) {
	const unpacked, memory = 500_000, 2 << 20
	packed := func(size int) kafkaproto.RecordBatch {
		b := batchtest.Compress(t, recordBatch(string(make([]byte, size))), kafkaproto.Zstd)
		return b
	}
	fits, tooLarge := packed(unpacked), packed(2<<20)
	var parts []to
	var want []int16
	sent := 0
	for i := range int32(50) {
		parts, want = append(parts, to{7, i, fits}), append(want, 0)
		if i%10 == 9 {
			parts = append(parts, to{1, i / 10, recordBatch("as it is")}, to{99, 0, fits}, to{7, i, tooLarge})
			want = append(want, 0, kerr.UnknownTopicOrPartition.Code, kerr.MessageTooLarge.Code)
		}
	}
	for _, p := range parts {
		sent += len(p.records)
	}
	require.Less(t, sent, 50_000)
	synctest.Test(t, func(t *testing.T) {
		r := newProduceRig(t)
		r.addUnpacked()
		added := &lots{BatchWriter: r.writer}
		r.cfg.Writer, r.cfg.Recoder = added, recode.New(recode.Config{HoldBytes: memory})
		for round := range int64(2) {
			for i, p := range r.send(12, produceOf(-1, parts...)) {
				require.Equal(t, want[i], p.ErrorCode)
				require.Equal(t, parts[i].partition, p.Partition)
				if want[i] == 0 {
					require.Equal(t, round, p.BaseOffset)
				}
			}
		}
		require.Greater(t, len(added.bytes), 2*50*unpacked/memory-1)
		for _, n := range added.bytes {
			require.LessOrEqual(t, n, memory+5*1000, "of one lot, with what is as it was sent")
		}
		require.Equal(t, kafkaproto.NoCodec, r.stored(7).Codec())
	})
}

// TestProduce_NoMemoryToUnpack: while others hold all memory for what is compressed anew, whatever needs none of it goes on,
// and what does is given up in time, to be sent again.
func TestProduce_NoMemoryToUnpack(t *testing.T) {
	b := batchtest.Compress(t, recordBatch("a"), kafkaproto.Zstd)
	synctest.Test(t, func(t *testing.T) {
		r := newProduceRig(t)
		r.addUnpacked()
		r.cfg.Recoder = recode.New(recode.Config{HoldBytes: 1000})
		free := r.holdAll(b)
		got := r.send(12, produceOf(-1, to{1, 0, recordBatch("a")}, to{7, 0, from(7, 0, b)}, to{1, 1, recordBatch("a")}))
		require.Zero(t, got[0].ErrorCode)
		require.Equal(t, kerr.RequestTimedOut.Code, got[1].ErrorCode)
		free()
	})
}

// holdAll holds all memory for what is compressed anew until free is called.
func (r *produceRig) holdAll(b kafkaproto.RecordBatch) (free func()) {
	r.t.Helper()
	held, done := make(chan struct{}), make(chan struct{})
	go func() {
		err := r.cfg.Recoder.Apply(r.t.Context(), b, &recode.Rules{Compress: true, MaxBytes: 1000}, 0, func(kafkaproto.RecordBatch) {
			close(held)
			<-done
		})
		if err != nil {
			r.t.Error(err)
		}
	}()
	<-held
	return func() { close(done) }
}

// TestProduce_WaitsForMemoryWithNothing: who waits before it has opened anything hands nothing over, and waits for the writer
// with its batches alone.
func TestProduce_WaitsForMemoryWithNothing(t *testing.T) {
	b := batchtest.Compress(t, recordBatch("a"), kafkaproto.Zstd)
	synctest.Test(t, func(t *testing.T) {
		r := newProduceRig(t)
		r.addUnpacked()
		added := &lots{BatchWriter: r.writer}
		r.cfg.Writer, r.cfg.Recoder = added, recode.New(recode.Config{HoldBytes: 1000})
		time.AfterFunc(time.Second, r.holdAll(b))
		require.Zero(t, r.send(12, produceOf(-1, to{7, 0, b}))[0].ErrorCode)
		require.NotZero(t, r.send(12, produceOf(-1, to{99, 0, b}))[0].ErrorCode)
		require.Len(t, added.bytes, 1)
		require.NotZero(t, added.bytes[0])
	})
}

// TestProduce_ResultsOfManyAdds: gathering the results of a request with many Adds costs what they are, not their square.
func TestProduce_ResultsOfManyAdds(t *testing.T) {
	r := &produceRequest{added: 10_000}
	for base := range int64(r.added) {
		p := writer.NewProduce(1, nil)
		p.Resolve(0, writer.Result{Base: base})
		r.handed = append(r.handed, p)
	}
	var results []writer.Result
	require.LessOrEqual(t, testing.AllocsPerRun(1, func() { results = r.results(t.Context()) }), 5.0)
	for i := range results {
		require.EqualValues(t, i, results[i].Base)
	}
	require.Len(t, results, int(r.added))
}

// TestProduce_FirstBatchHasTheWindow: requests are counted by their first batch, except requests without an answer.
func TestProduce_FirstBatchHasTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newProduceRig(t)
		added := &lots{BatchWriter: r.writer}
		r.cfg.Writer = added
		parts := []to{{99, 0, recordBatch("a")}, {1, 0, recordBatch("a")}, {1, 1, recordBatch("a")}}
		r.send(12, produceOf(-1, parts...))
		require.Len(t, added.windows, 2)
		require.NotNil(t, added.windows[0])
		require.Nil(t, added.windows[1])
		r.begin(t.Context(), 12, produceOf(0, parts...))()
		require.Equal(t, []writer.Window{nil, nil}, added.windows[2:])
	})
}
