package clean_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/job/clean"
	"github.com/freshet-io/freshet/agent/job/clean/cleantest"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
	"github.com/freshet-io/freshet/objstore/fault"
)

const start = int64(1_700_000_000_000) // ms

var spec = job.CleanSpec{NowMs: start, DeleteRetentionMs: 1000, MaxBatchBytes: 1 << 20}

// pairs gives records of a key and a value each; "-" as value is a tombstone.
func pairs(kv ...string) (records []cleantest.Record) {
	for i := 0; i < len(kv); i += 2 {
		r := cleantest.Record{Key: []byte(kv[i]), Value: []byte(kv[i+1]), Timestamp: start - 1000 + int64(i)}
		if kv[i+1] == "-" {
			r.Value = nil
		}
		records = append(records, r)
	}
	return records
}

// shown gives what is stored as offset:key=value, and control batches as offset:marker.
func shown(t *testing.T, l *cleantest.Log) (list []string) {
	t.Helper()
	for _, b := range l.Batches(t) {
		for _, r := range cleantest.Open(t, b) {
			switch {
			case b.Control():
				list = append(list, fmt.Sprintf("%d:marker", r.Offset))
			case r.Value == nil:
				list = append(list, fmt.Sprintf("%d:%s", r.Offset, r.Key))
			default:
				list = append(list, fmt.Sprintf("%d:%s=%s", r.Offset, r.Key, r.Value))
			}
		}
	}
	return list
}

func cleanAll(t *testing.T, l *cleantest.Log, s job.CleanSpec) job.Replacement {
	t.Helper()
	o, err := clean.Run(t.Context(), l.Plan(l.High, s), ignore, l.Env())
	require.NoError(t, err)
	l.Apply(t, &o)
	return o.Partitions[0]
}

func TestRun_EveryCodec(t *testing.T) {
	for _, codec := range codecs {
		t.Run(codec.String(), func(t *testing.T) {
			l := cleantest.New()
			b := cleantest.Batch{Codec: codec, Producer: 7, Records: pairs("a", "1", "b", "2", "a", "3", "c", "4")}
			sent := b.Make(t)
			l.Append(t, sent)
			cleanAll(t, l, spec)
			require.Equal(t, []string{"1:b=2", "2:a=3", "3:c=4"}, shown(t, l))
			left := l.Batches(t)[0]
			require.Equal(t, codec, left.Codec())
			require.EqualValues(t, 0, left.BaseOffset(), "offsets of what went stay the batch's")
			require.EqualValues(t, 3, left.LastOffset())
			require.EqualValues(t, 7, left.ProducerID())
			require.Equal(t, sent.BaseSequence(), left.BaseSequence())
			require.Equal(t, b.Records[3].Timestamp, left.MaxTimestamp())
			require.Equal(t, b.Records[1].Timestamp, left.BaseTimestamp())
		})
	}
}

func TestRun_WholeBatchesStayAsTheyAre(t *testing.T) {
	l := cleantest.New()
	first := (&cleantest.Batch{Codec: kafkaproto.Zstd, Records: pairs("a", "1", "b", "2")}).Make(t)
	l.Append(t, first, (&cleantest.Batch{Records: pairs("c", "3")}).Make(t))
	cleanAll(t, l, spec)
	left := l.Batches(t)
	const afterEpoch = 16
	require.True(t, bytes.Equal(first[afterEpoch:], left[0][afterEpoch:]))
	require.Len(t, l.Extents, 1)
}

func TestRun_NothingLeft(t *testing.T) {
	l := cleantest.New()
	l.Append(t, (&cleantest.Batch{Records: pairs("a", "1", "b", "2")}).Make(t))
	l.Append(t, (&cleantest.Batch{Records: pairs("a", "-", "b", "-")}).Make(t))
	cleanAll(t, l, spec)
	require.Equal(t, []string{"2:a", "3:b"}, shown(t, l))
	require.EqualValues(t, 0, l.Extents[0].Base)
	horizon := l.Batches(t)[0]
	require.True(t, horizon.DeleteHorizon())
	require.Equal(t, start+1000, horizon.BaseTimestamp())

	later := spec
	l.CleanedTo = 3 // something is dirty
	later.NowMs = start + 999
	cleanAll(t, l, later)
	require.Equal(t, []string{"2:a", "3:b"}, shown(t, l))
	require.Equal(t, start+1000, l.Batches(t)[0].BaseTimestamp(), "the first horizon counts")
	l.CleanedTo = 3
	later.NowMs = start + 1000
	r := cleanAll(t, l, later)
	require.Empty(t, shown(t, l))
	require.Len(t, r.Extents, 1)
	require.Equal(t, []int64{0, 3, -1}, []int64{l.Extents[0].Base, l.Extents[0].Last, l.Extents[0].MaxTimestamp}, "what is gone stays covered")
	require.EqualValues(t, 0, l.Batches(t)[0].RecordCount())
}

// TestRun_Transactions follows an aborted and a committed transaction until nothing is left of them.
func TestRun_Transactions(t *testing.T) {
	l := cleantest.New()
	one := func(producer int64, kv ...string) {
		l.Append(t, (&cleantest.Batch{Producer: producer, Transactional: producer < 9, Records: pairs(kv...)}).Make(t))
	}
	one(1, "a", "aborted")   // 0
	one(2, "a", "committed") // 1
	one(1, "b", "aborted")   // 2
	l.AppendMarker(1, false, 0, start)
	l.AppendMarker(2, true, -1, start)
	l.AppendMarker(3, false, -1, start) // 5, of a transaction without data here
	cleanAll(t, l, spec)
	require.Equal(t, []string{"1:a=committed", "3:marker", "4:marker", "5:marker"}, shown(t, l))
	require.Equal(t, []extent.Aborted{{ProducerID: 1, First: 0, Last: 3}}, l.Aborted)

	s := spec
	s.NowMs += 10_000
	one(9, "a", "later") // 6
	require.Empty(t, cleanAll(t, l, s).DroppedAborted, "its horizon begins when it is found without data")
	require.Equal(t, []string{"3:marker", "4:marker", "6:a=later"}, shown(t, l), "the one without data had its horizon")

	one(9, "c", "x") // 7
	s.NowMs += 999
	require.Empty(t, cleanAll(t, l, s).DroppedAborted)
	one(9, "d", "x") // 8
	s.NowMs++
	r := cleanAll(t, l, s)
	require.Equal(t, []int64{3}, r.DroppedAborted)
	require.Empty(t, l.Aborted)
	require.Equal(t, []string{"4:marker", "6:a=later", "7:c=x", "8:d=x"}, shown(t, l),
		"the committed one was found without data one cleaning later")
}

// TestRun_AbortedBeyondPlan: the marker of a transaction may lie where the plan does not reach.
func TestRun_AbortedBeyondPlan(t *testing.T) {
	l := cleantest.New()
	l.Append(t, (&cleantest.Batch{Records: pairs("a", "1")}).Make(t))
	l.Append(t, (&cleantest.Batch{Producer: 1, Transactional: true, Records: pairs("a", "2")}).Make(t))
	l.AppendMarker(1, false, 1, start)
	o, err := clean.Run(t.Context(), l.Plan(2, spec), ignore, l.Env())
	require.NoError(t, err)
	l.Apply(t, &o)
	require.Equal(t, []string{"0:a=1", "2:marker"}, shown(t, l))
	require.Len(t, l.Aborted, 1)
}

func TestRun_AbortedNotListed(t *testing.T) {
	l := cleantest.New()
	l.Append(t, (&cleantest.Batch{Records: pairs("a", "1")}).Make(t))
	l.Append(t, (&cleantest.Batch{Producer: 1, Transactional: true, Records: pairs("a", "2")}).Make(t))
	l.AppendMarker(1, false, 1, start)
	l.Aborted = nil
	_, err := clean.Run(t.Context(), l.Plan(l.High, spec), ignore, l.Env())
	require.ErrorIs(t, err, clean.ErrUncleanable, "else aborted records would become committed ones")
}

// TestRun_KeysBeyondMemory cleans 200 keys with room for nine: each time a part, until all is clean.
func TestRun_KeysBeyondMemory(t *testing.T) {
	l := cleantest.New()
	const keys = 200
	for round := range 2 {
		for i := 0; i < keys; i += 10 {
			var kv []string
			for k := i; k < i+10; k++ {
				kv = append(kv, fmt.Sprint(k), fmt.Sprint(round))
			}
			l.Append(t, (&cleantest.Batch{Codec: codecs[i/10%len(codecs)], Records: pairs(kv...)}).Make(t))
		}
	}
	rounds := 0
	for ; l.CleanedTo < l.High; rounds++ {
		env := l.Env()
		env.MapBytes = 12 * 24
		o, err := clean.Run(t.Context(), l.Plan(l.High, spec), ignore, env)
		require.NoError(t, err)
		require.LessOrEqual(t, o.Partitions[0].CleanedTo-l.CleanedTo, int64(9))
		l.Apply(t, &o)
	}
	require.Greater(t, rounds, keys*2/10)
	left := shown(t, l)
	require.Len(t, left, keys)
	require.Equal(t, "200:0=1", left[0])
}

func TestRun_SeveralPartitions(t *testing.T) {
	l := cleantest.New()
	l.Append(t, (&cleantest.Batch{Records: pairs("a", "1", "a", "2")}).Make(t))
	plan := l.Plan(l.High, spec)
	second := plan.Partitions[0]
	second.ID.Partition++
	plan.Partitions = append(plan.Partitions, second)
	env := l.Env()
	env.BundleBytes = 1
	o, err := clean.Run(t.Context(), plan, ignore, env)
	require.NoError(t, err)
	require.Len(t, o.Partitions, 2)
	require.Len(t, o.Bundles, 2, "a bundle ends where it is large enough")
	for i, r := range o.Partitions {
		require.Equal(t, id.Submission{Session: plan.ID, N: uint32(i + 1)}.Bundle(), r.Extents[0].Bundle)
		info, err := l.Bucket.Head(t.Context(), bundle.Key("", r.Extents[0].Bundle))
		require.NoError(t, err)
		require.EqualValues(t, o.Bundles[i].Bytes, info.Size)
	}
}

func TestRun_RefusesOtherPlans(t *testing.T) {
	l := cleantest.New()
	l.Append(t, (&cleantest.Batch{Records: pairs("a", "1")}).Make(t))
	l.Append(t, (&cleantest.Batch{Records: pairs("a", "1")}).Make(t))
	for name, spoil := range map[string]func(*job.Plan){
		"kind":          func(p *job.Plan) { p.Kind = job.Compact },
		"no spec":       func(p *job.Plan) { p.Partitions[0].Clean = nil },
		"no extents":    func(p *job.Plan) { p.Partitions[0].Extents = nil },
		"nothing dirty": func(p *job.Plan) { p.Partitions[0].Clean.FirstDirty = 2 },
		"a hole":        func(p *job.Plan) { p.Partitions[0].Extents[1].Base++ },
	} {
		plan := l.Plan(l.High, spec)
		spoil(plan)
		_, err := clean.Run(t.Context(), plan, ignore, l.Env())
		require.ErrorIs(t, err, clean.ErrPlan, name)
	}
}

// TestRun_BrokenBatches: what is stored and is not what it should be ends the job and is named; nothing is guessed.
func TestRun_BrokenBatches(t *testing.T) {
	good := (&cleantest.Batch{Codec: kafkaproto.Zstd, Records: pairs("a", "1", "b", "2")}).Make(t)
	for name, spoil := range map[string]func(b kafkaproto.RecordBatch){
		"records":        func(b kafkaproto.RecordBatch) { b[70] ^= 1 },
		"magic":          func(b kafkaproto.RecordBatch) { b[16] = 1 },
		"length":         func(b kafkaproto.RecordBatch) { b[11]++ },
		"negative delta": func(b kafkaproto.RecordBatch) { b[23] = 0xff },
		"delta":          func(b kafkaproto.RecordBatch) { b[26]++ },
	} {
		t.Run(name, func(t *testing.T) {
			l := cleantest.New()
			l.Append(t, (&cleantest.Batch{Records: pairs("a", "1")}).Make(t))
			l.Append(t, good)
			x := l.Extents[1]
			body, err := l.Bucket.Get(t.Context(), bundle.Key("", x.Bundle), 0, -1)
			require.NoError(t, err)
			var p bytes.Buffer
			_, err = p.ReadFrom(body)
			require.NoError(t, err)
			spoil(kafkaproto.RecordBatch(p.Bytes()[x.Position:]))
			require.NoError(t, l.Bucket.Delete(t.Context(), []string{bundle.Key("", x.Bundle)}))
			require.NoError(t, l.Bucket.Put(t.Context(), bundle.Key("", x.Bundle), objstore.NewBody(p.Bytes())))
			requireUncleanable(t, l, job.Unreadable{Bundles: []id.Bundle{x.Bundle}})
		})
	}
}

// TestRun_RecordsThatLie: the checksum is right, the records are not what the header says.
func TestRun_RecordsThatLie(t *testing.T) {
	for name, change := range map[string]func(b kafkaproto.RecordBatch) kafkaproto.RecordBatch{
		"one fewer": func(b kafkaproto.RecordBatch) kafkaproto.RecordBatch { b[60]--; return b },
		"one more":  func(b kafkaproto.RecordBatch) kafkaproto.RecordBatch { b[60]++; return b },
		"no codec": func(b kafkaproto.RecordBatch) kafkaproto.RecordBatch {
			b[22] |= 7
			return b
		},
		"garbage": func(b kafkaproto.RecordBatch) kafkaproto.RecordBatch { b[61] = 0xff; return b },
	} {
		t.Run(name, func(t *testing.T) {
			l := cleantest.New()
			b := change((&cleantest.Batch{Records: pairs("a", "1", "b", "2")}).Make(t))
			kafkaproto.SealThinned(b, kafkaproto.Thinned{Records: b.RecordCount()})
			l.Append(t, b)
			requireUncleanable(t, l, job.Unreadable{Bundles: []id.Bundle{l.Extents[0].Bundle}, Intact: true})
		})
	}
}

func requireUncleanable(t *testing.T, l *cleantest.Log, want job.Unreadable) {
	t.Helper()
	_, err := clean.Run(t.Context(), l.Plan(l.High, spec), ignore, l.Env())
	require.ErrorIs(t, err, clean.ErrUncleanable)
	var corrupt interface{ UnreadableInputs() job.Unreadable }
	require.ErrorAs(t, err, &corrupt)
	require.Equal(t, want, corrupt.UnreadableInputs())
}

// TestRun_Bomb: what records decompress to is bounded.
func TestRun_Bomb(t *testing.T) {
	l := cleantest.New()
	b := cleantest.Batch{Codec: kafkaproto.Zstd, Records: pairs("a", string(make([]byte, 2<<20)))}
	l.Append(t, b.Make(t))
	env := l.Env()
	env.MaxRecordBytes = 1 << 20
	_, err := clean.Run(t.Context(), l.Plan(l.High, spec), ignore, env)
	require.ErrorIs(t, err, clean.ErrUncleanable)
}

func TestRun_InputGone(t *testing.T) {
	l := cleantest.New()
	l.Append(t, (&cleantest.Batch{Records: pairs("a", "1")}).Make(t))
	require.NoError(t, l.Bucket.Delete(t.Context(), []string{bundle.Key("", l.Extents[0].Bundle)}))
	_, err := clean.Run(t.Context(), l.Plan(l.High, spec), ignore, l.Env())
	require.ErrorIs(t, err, objstore.ErrNotFound)
	var unreadable interface{ UnreadableInputs() job.Unreadable }
	require.ErrorAs(t, err, &unreadable)
	require.Equal(t, job.Unreadable{Bundles: []id.Bundle{l.Extents[0].Bundle}}, unreadable.UnreadableInputs())
}

// TestRun_EndsAnywhere cancels a run at each of its requests, and at each of its batches, then lets another run do the
// same work: a run that ended leaves nothing that is in anybody's way.
func TestRun_EndsAnywhere(t *testing.T) {
	l := cleantest.New()
	random := rand.New(rand.NewPCG(1, 2))
	for range 12 {
		key := fmt.Sprint(random.IntN(5))
		l.Append(t, (&cleantest.Batch{Codec: kafkaproto.LZ4, Records: pairs(key, "1", key, "2")}).Make(t))
	}
	var ended int
	for stop := 1; ; stop++ {
		ctx, cancel := context.WithCancel(t.Context())
		env := l.Env()
		env.BundleBytes, env.ExtentBytes = 500, 100
		calls := 0
		progress := func(int64) {
			if calls++; calls == stop {
				cancel()
			}
		}
		_, err := clean.Run(ctx, l.Plan(l.High, spec), progress, env)
		cancel()
		if err == nil {
			break
		}
		require.ErrorIs(t, err, context.Canceled)
		ended++
	}
	require.Equal(t, 24, ended, "in each of twelve batches in two passes")
	cleanAll(t, l, spec)
	require.Len(t, shown(t, l), 4)
}

// TestRun_StoreFails: reads that break are taken up where they broke; a store that is gone ends the run in time.
func TestRun_StoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := cleantest.New()
		for i := range 20 {
			l.Append(t, (&cleantest.Batch{Records: pairs("a", fmt.Sprint(i), fmt.Sprint("b", i), "x")}).Make(t))
		}
		faulty := fault.New(l.Bucket, 1)
		_, err := faulty.Add("get every=2 truncate\nget every=3 throttle\nget every=7 outcome-unknown-before")
		require.NoError(t, err)
		env := l.Env()
		env.Bucket = faulty
		o, err := clean.Run(t.Context(), l.Plan(l.High, spec), ignore, env)
		require.NoError(t, err)
		l.Apply(t, &o)
		require.Len(t, shown(t, l), 21)

		l.Append(t, (&cleantest.Batch{Records: pairs("a", "end")}).Make(t))
		dead := fault.New(l.Bucket, 1)
		_, err = dead.Add("get throttle")
		require.NoError(t, err)
		env.Bucket = dead
		began := time.Now()
		_, err = clean.Run(t.Context(), l.Plan(l.High, spec), ignore, env)
		require.ErrorIs(t, err, objstore.ErrThrottled)
		require.Less(t, time.Since(began), time.Minute)
	})
}

// TestRun_WriteFails: an answer that is lost costs a repetition; a store that refuses ends the run.
func TestRun_WriteFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := cleantest.New()
		l.Append(t, (&cleantest.Batch{Records: pairs("a", "1", "a", "2")}).Make(t))
		faulty := fault.New(l.Bucket, 1)
		_, err := faulty.Add("put nth=1 outcome-unknown-after\nput nth=2 throttle")
		require.NoError(t, err)
		env := l.Env()
		env.Bucket = faulty
		o, err := clean.Run(t.Context(), l.Plan(l.High, spec), ignore, env)
		require.NoError(t, err)
		l.Apply(t, &o)
		require.Equal(t, []string{"1:a=2"}, shown(t, l))

		l.Append(t, (&cleantest.Batch{Records: pairs("a", "3")}).Make(t))
		_, err = faulty.Add("put fail")
		require.NoError(t, err)
		_, err = clean.Run(t.Context(), l.Plan(l.High, spec), ignore, env)
		require.ErrorIs(t, err, fault.ErrInjected)
	})
}
