package clean_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/job/clean"
	"github.com/freshet-io/freshet/agent/job/clean/cleantest"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/job"
)

var codecs = []kafkaproto.Codec{
	kafkaproto.NoCodec, kafkaproto.Gzip, kafkaproto.Snappy, kafkaproto.LZ4, kafkaproto.Zstd,
}

func ignore(int64) {}

// TestRun_LikeTheModel drives partitions with random histories: batches of every codec, transactions, tombstones, log
// starts that rise, clocks that advance, cleanings that get as far as little memory lets them. After each cleaning, what
// is stored must be what Kafka's rules leave of it.
func TestRun_LikeTheModel(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			h := &history{
				rand: rand.New(rand.NewPCG(seed, 5)), log: cleantest.New(), model: newModel(), open: make(map[int64]int64),
				now: 1_700_000_000_000, keys: 3 + int(seed)%20, retention: int64(seed%3) * 5000,
			}
			for range 80 {
				h.step(t)
			}
			h.endAll(true)
			for range 3 { // so that everything that may go can go
				h.now += 20_000
				h.produce(t)
				h.endAll(false)
				h.clean(t)
			}
			require.Positive(t, h.cleanings)
		})
	}
}

type history struct {
	rand      *rand.Rand
	log       *cleantest.Log
	model     *model
	open      map[int64]int64 // first offsets of open transactions by producer
	now       int64           // ms
	keys      int
	retention int64 // delete.retention.ms
	batches   int
	cleanings int
}

func (h *history) step(t *testing.T) {
	t.Helper()
	h.now += h.rand.Int64N(500)
	switch n := h.rand.IntN(20); {
	case n < 12:
		h.produce(t)
	case n < 16:
		producer := 1 + h.rand.Int64N(4)
		if _, open := h.open[producer]; open || h.rand.IntN(8) == 0 {
			h.end(producer, h.rand.IntN(2) == 0)
		}
	case n < 19:
		h.clean(t)
	default:
		h.trim()
	}
}

func (h *history) produce(t *testing.T) {
	t.Helper()
	var together []kafkaproto.RecordBatch
	at := h.log.High
	for range 1 + h.rand.IntN(3) {
		b := cleantest.Batch{Codec: codecs[h.rand.IntN(len(codecs))]}
		switch h.rand.IntN(3) {
		case 0:
			b.Producer, b.Transactional = 1+h.rand.Int64N(4), true
			if _, open := h.open[b.Producer]; !open {
				h.open[b.Producer] = at
			}
		case 1:
			b.Producer = 9
		}
		if h.rand.IntN(6) == 0 {
			b.LogAppendMs = h.now
		}
		for range 1 + h.rand.IntN(5) {
			b.Records = append(b.Records, h.record())
		}
		together = append(together, b.Make(t))
		h.batches++
		for _, r := range b.Records {
			if b.LogAppendMs > 0 {
				r.Timestamp = b.LogAppendMs
			}
			r.Offset = at
			m := modelRecord{Record: r, batch: h.batches}
			if b.Transactional {
				m.producer = b.Producer
			}
			h.model.records = append(h.model.records, m)
			h.model.last[h.batches] = at
			at++
		}
	}
	h.log.Append(t, together...)
}

func (h *history) record() cleantest.Record {
	r := cleantest.Record{
		Timestamp: h.now - h.rand.Int64N(1000),
		Key:       fmt.Appendf(nil, "key-%d", h.rand.IntN(h.keys)),
		Value:     bytes.Repeat([]byte{byte(h.rand.IntN(256))}, h.rand.IntN(300)),
	}
	switch h.rand.IntN(200) {
	case 0:
		r.Key = nil
	case 1:
		r.Key = []byte{}
	case 2: // more than buffers hold
		r.Key = bytes.Repeat(r.Key, 14_000)
		r.Value = bytes.Repeat([]byte{1}, 80_000)
	case 3, 4, 5, 6, 7, 8:
		r.Value = nil
	case 9:
		r.Headers = append(r.Headers, kmsg.Header{Key: "a", Value: []byte("b")}, kmsg.Header{Key: "c"})
	}
	return r
}

func (h *history) end(producer int64, commit bool) {
	first := h.model.end(h.log.High, producer, commit)
	h.log.AppendMarker(producer, commit, first, h.now)
	delete(h.open, producer)
}

func (h *history) endAll(commit bool) {
	for producer := range int64(5) {
		if _, open := h.open[producer]; open {
			h.end(producer, commit)
		}
	}
}

func (h *history) trim() {
	if h.log.High == 0 || h.rand.IntN(3) > 0 {
		return
	}
	h.log.Trim(h.log.LogStart + h.rand.Int64N(h.log.High-h.log.LogStart+1)/4)
	if len(h.log.Extents) > 0 {
		h.model.trim(h.log.Extents[0].Base)
	}
}

// clean cleans as far as no transaction is open, or less far.
func (h *history) clean(t *testing.T) {
	t.Helper()
	upTo := h.log.High
	for _, first := range h.open {
		upTo = min(upTo, first)
	}
	if h.rand.IntN(4) == 0 {
		upTo -= h.rand.Int64N(20)
	}
	plan := h.log.Plan(upTo, job.CleanSpec{NowMs: h.now, DeleteRetentionMs: h.retention, MaxBatchBytes: 1 << 20})
	exts := plan.Partitions[0].Extents
	firstDirty := plan.Partitions[0].Clean.FirstDirty
	if len(exts) == 0 || exts[len(exts)-1].Last < firstDirty {
		return
	}
	env := h.log.Env()
	env.ExtentBytes = []int64{0, 300, 5000}[h.rand.IntN(3)]
	env.BundleBytes = []int64{0, 2000}[h.rand.IntN(2)]
	env.MapBytes = []int64{0, 24, 24 * 8, 24 * 20}[h.rand.IntN(4)]
	outcome, err := clean.Run(t.Context(), plan, ignore, env)
	require.NoError(t, err)
	h.log.Apply(t, &outcome)
	r := outcome.Partitions[0]
	h.model.clean(firstDirty, r.CleanedTo, r.To, h.now, h.retention)
	h.compare(t)
	h.cleanings++
}

// compare compares what is stored, from the log start on, with what the model has.
func (h *history) compare(t *testing.T) {
	t.Helper()
	var stored, wanted []string
	for _, b := range h.log.Batches(t) {
		for _, r := range cleantest.Open(t, b) {
			switch {
			case r.Offset < h.log.LogStart:
			case b.Control():
				stored = append(stored, fmt.Sprintf("%d marker", r.Offset))
			default:
				stored = append(stored, line(&r))
			}
		}
	}
	markers := h.model.markers
	marked := func(offset int64) {
		for len(markers) > 0 && markers[0].offset < offset {
			if markers[0].offset >= h.log.LogStart {
				wanted = append(wanted, fmt.Sprintf("%d marker", markers[0].offset))
			}
			markers = markers[1:]
		}
	}
	for i := range h.model.records {
		r := &h.model.records[i].Record
		marked(r.Offset)
		if r.Offset >= h.log.LogStart {
			wanted = append(wanted, line(r))
		}
	}
	marked(h.log.High)
	require.Equal(t, wanted, stored)
	require.ElementsMatch(t, h.model.aborted(h.log.LogStart), h.log.Aborted)
}

// line tells one record from any other.
func line(r *cleantest.Record) string {
	key, value := "null", "null"
	if r.Key != nil {
		key = fmt.Sprintf("%.10q of %d", r.Key, len(r.Key))
	}
	if r.Value != nil {
		value = fmt.Sprintf("%x", sha256.Sum256(r.Value))[:8]
	}
	return fmt.Sprintf("%d at %d: %s = %s, headers %q", r.Offset, r.Timestamp, key, value, r.Headers)
}
