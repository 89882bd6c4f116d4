package removal

import (
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/job/clean/cleantest"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore/bundle"
)

// transaction is one that is open.
type transaction struct {
	name     string
	producer int64
	epoch    int16
	tp       id.TopicPartition
}

// partition gives one of the topics that there are.
func (w *world) partition() (id.TopicPartition, bool) {
	if len(w.topics) == 0 {
		return id.TopicPartition{}, false
	}
	return id.TopicPartition{Topic: w.topics[w.rng.IntN(len(w.topics))], Partition: w.rng.Int32N(2)}, true
}

// records makes some of a few keys; of the future none is.
func (w *world) records() []cleantest.Record {
	var list []cleantest.Record
	timestamp := time.Now().UnixMilli()
	switch w.rng.IntN(6) {
	case 0:
		timestamp = -1
	case 1:
		timestamp -= w.rng.Int64N(int64(12 * time.Hour / time.Millisecond))
	}
	for range 1 + w.rng.IntN(4) {
		r := cleantest.Record{Timestamp: timestamp, Key: fmt.Append(nil, "k", w.rng.IntN(6)), Value: fmt.Append(nil, w.rng.Uint64())}
		switch w.rng.IntN(8) {
		case 0, 1:
			r.Value = nil
		case 2:
			r.Key = nil
		}
		list = append(list, r)
	}
	return list
}

// produce writes a bundle of an agent with batches of a few partitions.
func (w *world) produce() {
	var to []id.TopicPartition
	for range 1 + w.rng.IntN(4) {
		if tp, ok := w.partition(); ok && !slices.Contains(to, tp) {
			to = append(to, tp)
		}
	}
	slices.SortFunc(to, id.TopicPartition.Compare)
	w.write(nil, to...)
}

// write is a bundle of a batch for each of the partitions, of a transaction if there is one.
func (w *world) write(x *transaction, to ...id.TopicPartition) {
	w.t.Helper()
	if len(to) == 0 {
		return
	}
	session := w.agents[w.rng.IntN(len(w.agents))]
	w.n[session]++
	name := id.Submission{Session: session, N: w.n[session]}
	var object bundle.Encoder
	object.Reset(name)
	sections := make([][]cleantest.Record, len(to))
	sizes, positions := make([]int32, len(to)), make([]uint32, len(to))
	made := commit.Batch{ProducerID: commit.NoProducer}
	for i, tp := range to {
		sections[i] = w.records()
		b := cleantest.Batch{Records: sections[i], Codec: kafkaproto.Codec(w.rng.IntN(4))} // zstd has goroutines that outlive a bubble
		if x != nil {
			b.Producer, b.Transactional = x.producer, true
			made = commit.Batch{ProducerID: x.producer, ProducerEpoch: x.epoch, Transactional: true, TransactionVersion: 2}
		}
		positions[i] = object.Section(tp)
		batch := b.Make(w.t)
		sizes[i] = int32(len(batch))
		require.NoError(w.t, object.Batch(batch))
	}
	body, _ := object.Finish()
	require.NoError(w.t, w.bucket.Put(w.t.Context(), bundle.Key(prefix, name.Bundle()), body))
	var c commit.Builder
	c.Reset(commit.Header{Submission: name, Bytes: uint32(body.Size)})
	for i, tp := range to {
		c.Section(commit.Section{Partition: tp, Position: positions[i]})
		made.Records, made.Bytes, made.MaxTimestamp = int32(len(sections[i])), sizes[i], sections[i][0].Timestamp
		c.Batch(made)
	}
	r := w.must(&metadata.CommitBundle{Encoded: c.AppendTo(nil)}).Value.(*commit.Result)
	for i, tp := range to {
		span := r.Sections[i].Spans[0]
		if span.Outcome == commit.Accepted {
			w.oracle.written(tp, span.Base, sections[i], x, time.Now())
		}
	}
}

// begin opens a transaction, or writes on in one.
func (w *world) begin() {
	tp, ok := w.partition()
	if !ok {
		return
	}
	w.names++
	x := transaction{name: fmt.Sprint("x", w.names), tp: tp}
	p := w.must(&metadata.InitTransaction{TransactionalID: x.name, TimeoutMs: 3_600_000}).Value.(metadata.InitTransactionResult)
	x.producer, x.epoch = p.ProducerID, p.Epoch
	w.write(&x, tp)
	w.open = append(w.open, x)
}

// end ends a transaction. The state may have aborted it by its time-out.
func (w *world) end(x transaction, commits bool) {
	w.open = slices.DeleteFunc(w.open, func(o transaction) bool { return o.name == x.name })
	r := w.apply(&metadata.EndTransaction{
		TransactionRef: metadata.TransactionRef{TransactionalID: x.name, ProducerID: x.producer, Epoch: x.epoch, Version: 2}, Commit: commits,
	})
	w.oracle.ended(x.producer, commits && r.Err == nil)
}
