package merge_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/freshet-io/freshet/agent/job/merge"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
	"github.com/freshet-io/freshet/objstore/fault"
	"github.com/freshet-io/freshet/objstore/mem"
	"github.com/freshet-io/freshet/objstore/meter"
	"github.com/freshet-io/freshet/objstore/objstoretest"
)

// breaking ends each body after some bytes: with an error, without one, or by bringing nothing more.
type breaking struct {
	objstore.Bucket
	after int64
	how   error // nil: the body just ends; errHang: it brings nothing
}

var errHang = errors.New("hang")

func (b breaking) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	r, err := b.Bucket.Get(ctx, key, offset, length)
	if err != nil {
		return nil, err
	}
	return &breakingBody{ReadCloser: r, ctx: ctx, left: b.after, how: b.how}, nil
}

type breakingBody struct {
	io.ReadCloser
	ctx  context.Context
	left int64
	how  error
}

func (b *breakingBody) Read(p []byte) (int, error) {
	if b.left > 0 {
		n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
		b.left -= int64(n)
		return n, err
	}
	switch {
	case b.how == nil:
		return 0, io.EOF
	case errors.Is(b.how, errHang):
		<-b.ctx.Done()
		return 0, b.ctx.Err()
	default:
		return 0, b.how
	}
}

func TestRun_StreamsBreakEverywhere(t *testing.T) {
	for _, how := range []error{nil, io.ErrUnexpectedEOF, errHang} {
		for _, after := range []int64{1, 7, 60, 61, 62, 1000, 4096, 5000} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, uint64(after))
				w.batchBytes = 300
				if after == 1 {
					w.batchBytes = 10
				}
				w.random(6, 4, 6)
				plan := w.plan(1000)
				metered := meter.New(breaking{w.bucket, after, how}, nil)
				o, err := merge.Run(t.Context(), plan, ignore, env(metered))
				require.NoError(t, err)
				w.requireOutcome(w.bucket, plan, &o)
				if after <= 1000 {
					require.Greater(t, int(metered.Counts()[objstore.OpGet].Requests), len(inputsOf(plan)))
				}
			})
		}
	}
}

func TestRun_StoreFailsForAWhileOrForGood(t *testing.T) {
	for _, rule := range []string{
		"get times=15 throttle", "get p=0.3 truncate", "get every=3 stall", "get p=0.2 corrupt", "put every=2 outcome-unknown-after",
		"put every=2 throttle",
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 3).random(8, 6, 8)
			plan := w.plan(1000)
			b := fault.New(w.bucket, 1)
			b.MustAdd(rule)
			o, err := merge.Run(t.Context(), plan, ignore, env(b))
			require.NoError(t, err, rule)
			w.requireOutcome(w.bucket, plan, &o)
		})
	}
	for _, rule := range []string{"get throttle", "get fail", "put fail"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 3).random(8, 6, 8)
			b := fault.New(w.bucket, 1)
			b.MustAdd(rule)
			start := time.Now()
			_, err := merge.Run(t.Context(), w.plan(1000), ignore, env(b))
			require.ErrorIs(t, err, fault.ErrInjected, rule)
			require.Less(t, time.Since(start), time.Minute)
		})
	}
}

// changed is a copy of a bucket in which one object has other bytes.
func changed(t *testing.T, from *mem.Bucket, key string, change func([]byte) []byte) *mem.Bucket {
	t.Helper()
	to := mem.New()
	page, err := from.List(t.Context(), "", "", 1000)
	require.NoError(t, err)
	for _, info := range page {
		data, err := objstoretest.Get(t.Context(), from, info.Key, 0, -1)
		require.NoError(t, err)
		if info.Key == key {
			data = change(bytes.Clone(data))
		}
		require.NoError(t, to.Put(t.Context(), info.Key, objstore.NewBody(data)))
	}
	return to
}

// TestRun_CorruptBytes flips a bit at every few bytes of an extent, and cuts the object there.
func TestRun_CorruptBytes(t *testing.T) {
	w := newWorld(t, 4)
	w.batchBytes = 100
	for range 3 {
		w.bundle([]id.TopicPartition{tp(1, 0), tp(1, 1)}, 8)
	}
	plan := w.plan(1000)
	x := w.log(tp(1, 1)).extents[0]
	key := bundle.Key(prefix, x.Bundle)
	found := 0
	for at := x.Position; at < x.Position+x.Length; at += 3 {
		synctest.Test(t, func(t *testing.T) {
			b := changed(t, w.bucket, key, func(data []byte) []byte {
				data[at] ^= 1
				return data
			})
			o, err := merge.Run(t.Context(), plan, ignore, env(b))
			if err == nil { // base offset or leader epoch, which are made right anyway
				w.requireOutcome(b, plan, &o)
			} else {
				found++
				requireCorrupt(t, err, key, &x, at)
				requireOnlyInputs(t, b, w.bucket)
			}
			b = changed(t, w.bucket, key, func(data []byte) []byte { return data[:at] })
			_, err = merge.Run(t.Context(), plan, ignore, env(b))
			requireCorrupt(t, err, key, &x, at)
			require.ErrorContains(t, err, "ends")
		})
	}
	require.Greater(t, found, int(x.Length)/3*8/10)
	b := changed(t, w.bucket, key, func(data []byte) []byte {
		data[x.Position+70] ^= 1
		return data
	})
	_, err := merge.Run(t.Context(), plan, ignore, env(b))
	require.ErrorContains(t, err, "checksum stored ")
	require.ErrorContains(t, err, key)
}

// damagedOnce flips a bit of one byte of an object in the first answer that holds that byte.
type damagedOnce struct {
	objstore.Bucket
	key   string
	at    int64
	spent bool
}

func (b *damagedOnce) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	body, err := b.Bucket.Get(ctx, key, offset, length)
	if err != nil || b.spent || key != b.key || b.at < offset || b.at >= offset+length {
		return body, err
	}
	b.spent = true
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	data[b.at-offset] ^= 1
	return io.NopCloser(bytes.NewReader(data)), nil
}

// TestRun_SecondLook merges a bundle that comes damaged once: the object is intact, and one more GET reads it.
func TestRun_SecondLook(t *testing.T) {
	w := newWorld(t, 22)
	w.bundle([]id.TopicPartition{tp(1, 0), tp(1, 1)}, 8)
	plan := w.plan(1000)
	x := plan.Partitions[1].Extents[0]
	metered := meter.New(w.bucket, nil)
	b := &damagedOnce{Bucket: metered, key: bundle.Key(prefix, x.Bundle), at: int64(x.Position) + 70}
	o, err := merge.Run(t.Context(), plan, ignore, env(b))
	require.NoError(t, err)
	require.True(t, b.spent)
	w.requireOutcome(w.bucket, plan, &o)
	require.EqualValues(t, 2, metered.Counts()[objstore.OpGet].Requests)
}

// requireCorrupt: the error says which batch of the extent it is, where byte at is wrong.
func requireCorrupt(t *testing.T, err error, key string, x *extent.Extent, at uint32) {
	t.Helper()
	corrupt := (*merge.CorruptError)(nil)
	require.ErrorAs(t, err, &corrupt, "byte %d", at)
	require.Equal(t, []id.Bundle{x.Bundle}, corrupt.UnreadableInputs().Bundles)
	require.Equal(t, key, corrupt.Key)
	require.LessOrEqual(t, corrupt.Position, at)
	require.GreaterOrEqual(t, corrupt.Position, x.Position)
	require.GreaterOrEqual(t, corrupt.Offset, x.Base)
	require.LessOrEqual(t, corrupt.Offset, x.Last)
	require.ErrorContains(t, err, "partition "+tp(1, 1).String())
}

// requireOnlyInputs: nothing is in the bucket but what was there before.
func requireOnlyInputs(t *testing.T, b, before objstore.Bucket) {
	t.Helper()
	require.Equal(t, keys(t, before), keys(t, b))
}

func keys(t *testing.T, b objstore.Bucket) (keys []string) {
	t.Helper()
	page, err := b.List(t.Context(), "", "", 1000)
	require.NoError(t, err)
	for _, info := range page {
		keys = append(keys, info.Key)
	}
	return keys
}

func TestRun_OffsetsThatDoNotAddUp(t *testing.T) {
	w := newWorld(t, 4)
	w.bundle([]id.TopicPartition{tp(1, 0)}, 20)
	for _, delta := range []int64{-1, 1} {
		plan := w.plan(1000)
		exts := plan.Partitions[0].Extents[:1]
		exts[0].Last += delta
		plan.Partitions[0].Extents = exts
		_, err := merge.Run(t.Context(), plan, ignore, env(w.bucket))
		corrupt := (*merge.CorruptError)(nil)
		require.ErrorAs(t, err, &corrupt)
		require.NotContains(t, err.Error(), "checksum")
	}
}

// Inputs whose objects are missing end the run with the names of all of them, before anything is written. One that goes missing while
// it is read ends the run too.
func TestRun_InputsMissing(t *testing.T) {
	for _, rule := range []string{"get key=%s not-found", "get key=%s nth=1 truncate\nget key=%s nth=2 not-found"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 9)
			w.random(4, 8, 6)
			lost := []id.Bundle{w.bundle([]id.TopicPartition{tp(0, 2), tp(1, 0), tp(1, 1)}, 9), w.bundle([]id.TopicPartition{tp(1, 1)}, 2)}
			w.random(4, 8, 6)
			before := keys(t, w.bucket)
			b := fault.New(w.bucket, 1)
			for _, name := range lost {
				_, err := b.Add(strings.ReplaceAll(rule, "%s", bundle.Key(prefix, name)))
				require.NoError(t, err)
			}
			_, err := merge.Run(t.Context(), w.plan(1000), ignore, env(b))
			require.ErrorIs(t, err, objstore.ErrNotFound)
			missing := (*merge.MissingError)(nil)
			require.ErrorAs(t, err, &missing)
			if strings.Contains(rule, "truncate") {
				require.Equal(t, lost[:1], missing.UnreadableInputs().Bundles, "the one that is read first")
			} else {
				require.ElementsMatch(t, lost, missing.UnreadableInputs().Bundles)
			}
			require.Equal(t, before, keys(t, w.bucket))
		})
	}
}

// A Cut plan drops what cannot be read: an object that stays missing, and a damaged batch with what lies behind it in an extent that an agent
// wrote. Everything else is copied, and the offsets stay covered.
func TestRun_CutsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 11)
		w.random(4, 8, 6)
		lost := w.bundle([]id.TopicPartition{tp(0, 2), tp(1, 0), tp(1, 1)}, 9)
		w.random(2, 8, 6)
		alone := w.bundle([]id.TopicPartition{tp(7, 0)}, 9)
		plan := w.plan(1000)
		b := objstore.Bucket(w.bucket)
		require.NoError(t, w.bucket.Delete(t.Context(), []string{bundle.Key(prefix, lost), bundle.Key(prefix, alone)}))
		var damaged *extent.Extent
		for i := range plan.Partitions {
			p := &plan.Partitions[i]
			for j := range p.Extents {
				switch x := &p.Extents[j]; {
				case x.Kind == extent.Marker:
				case x.Bundle == lost, x.Bundle == alone:
					w.log(p.ID).lose(x, 0)
				case damaged == nil && x.Batches > 2:
					damaged = x
					batches := w.log(p.ID).within(x.Base, x.Last)
					b = changed(t, w.bucket, bundle.Key(prefix, x.Bundle), func(data []byte) []byte {
						data[int(x.Position)+len(batches[0])+40] ^= 1
						return data
					})
					w.log(p.ID).lose(x, kafkaproto.RecordBatch(batches[1]).BaseOffset())
				}
			}
		}
		require.NotNil(t, damaged)

		core, logs := observer.New(zap.WarnLevel)
		env := env(b)
		env.Log = zap.New(core)
		_, err := merge.Run(t.Context(), plan, ignore, env)
		require.Error(t, err, "a Compact plan keeps its inputs")
		plan.Kind, plan.ID = job.Cut, 1001
		told := int64(0)
		o, err := merge.Run(t.Context(), plan, func(n int64) { told = n }, env)
		require.NoError(t, err)
		require.Equal(t, bytesOf(plan), told)
		w.requireOutcome(b, plan, &o)
		replaced := map[id.TopicPartition]int64{}
		for _, r := range o.Partitions {
			replaced[r.ID] += r.To + 1 - r.From
		}
		for _, p := range plan.Partitions {
			require.Equal(t, p.Extents[len(p.Extents)-1].Last+1-p.Extents[0].Base, replaced[p.ID], "%s", p.ID)
		}
		require.NotEmpty(t, logs.FilterMessage("unreadable records given up, as an operator requested").All())
	})
}

// Offsets that an extent claims and its batches do not have are given up too.
func TestRun_CutsOutOffsetsThatDoNotAddUp(t *testing.T) {
	w := newWorld(t, 4)
	w.bundle([]id.TopicPartition{tp(1, 0)}, 20)
	for n, delta := range []int64{-1, 1} {
		plan := w.plan(id.Session(1000 + n))
		plan.Kind = job.Cut
		exts := plan.Partitions[0].Extents[:1]
		exts[0].Last += delta
		plan.Partitions[0].Extents = exts
		o, err := merge.Run(t.Context(), plan, ignore, env(w.bucket))
		require.NoError(t, err, "delta %d", delta)
		require.Equal(t, exts[0].Last, o.Partitions[0].To)
	}
}

// In a compacted extent, batches have offsets of their own: those behind a damaged one stay, unless its length was damaged.
func TestRun_CutKeepsWhatLiesBehindADamagedBatch(t *testing.T) {
	w := newWorld(t, 5)
	w.bundle([]id.TopicPartition{tp(1, 0)}, 40)
	o, err := merge.Run(t.Context(), w.plan(1000), ignore, env(w.bucket))
	require.NoError(t, err)
	x := o.Partitions[0].Extents[0]
	require.Greater(t, x.Batches, uint32(3))
	batches := slices.Clone(w.log(tp(1, 0)).within(x.Base, x.Last))
	at := 0
	for n := range batches {
		for what, position := range map[string]int{"records": kafkaproto.BatchOverhead, "length": 11} {
			b := changed(t, w.bucket, bundle.Key(prefix, x.Bundle), func(data []byte) []byte {
				data[int(x.Position)+at+position] ^= 1
				return data
			})
			plan := &job.Plan{ID: id.Session(2000 + n), Kind: job.Cut, Level: 1, Partitions: []job.Partition{
				{ID: tp(1, 0), Extents: []extent.Extent{x}},
			}}
			o, err := merge.Run(t.Context(), plan, ignore, env(b))
			require.NoError(t, err)
			left := slices.Concat(batches[:n], batches[n+1:])
			if what == "length" {
				left = batches[:n]
			}
			w.log(tp(1, 0)).batches = left
			w.requireOutcome(b, plan, &o)
		}
		at += len(batches[n])
	}
}

// An object that is missing at first and there later loses nothing.
func TestRun_CutLooksAgainForAMissingObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 6)
		there := w.bundle([]id.TopicPartition{tp(1, 0)}, 20)
		b := fault.New(w.bucket, 1)
		b.MustAdd("get key=" + bundle.Key(prefix, there) + " nth=1 not-found")
		plan := w.plan(1000)
		plan.Kind = job.Cut
		o, err := merge.Run(t.Context(), plan, ignore, env(b))
		require.NoError(t, err)
		w.requireOutcome(b, plan, &o)
	})
}

// counting cancels a run when it makes its n-th request.
type counting struct {
	*fault.Bucket
	n      atomic.Int64
	at     int64
	only   objstore.Op // which requests count; OpPut: all, and reads of bodies too
	cancel context.CancelFunc
}

func (c *counting) step(op objstore.Op) {
	if (c.only == objstore.OpPut || c.only == op) && c.n.Add(1) == c.at {
		c.cancel()
	}
}

func (c *counting) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	c.step(objstore.OpGet)
	r, err := c.Bucket.Get(ctx, key, offset, length)
	if err != nil {
		return nil, err
	}
	return &countingBody{r, c, ctx}, nil
}

type countingBody struct {
	io.ReadCloser
	*counting
	ctx context.Context
}

func (b *countingBody) Read(p []byte) (int, error) {
	b.step(objstore.OpGet)
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.ReadCloser.Read(p)
}

func (c *counting) Put(ctx context.Context, key string, body objstore.Body) error {
	c.step(objstore.OpPut)
	return c.Bucket.Put(ctx, key, body)
}

func (c *counting) Create(ctx context.Context, key string) (objstore.Upload, error) {
	c.step(objstore.OpCreateUpload)
	u, err := c.Bucket.Create(ctx, key)
	return &countingUpload{u, c}, err
}

type countingUpload struct {
	objstore.Upload
	*counting
}

func (u *countingUpload) Part(ctx context.Context, number int, offset int64, body objstore.Body) error {
	u.step(objstore.OpPutPart)
	return u.Upload.Part(ctx, number, offset, body)
}

func (u *countingUpload) Complete(ctx context.Context) error {
	u.step(objstore.OpCompleteUpload)
	return u.Upload.Complete(ctx)
}

// TestRun_CancelledAnywhere ends the context at each request and read of a run that uploads parts side by side, as the end
// of the job's lease does, and the agent's: it ends with the context's error, no upload is left, no goroutine, and nothing in the bucket but inputs and whole bundles of the job.
func TestRun_CancelledAnywhere(t *testing.T) {
	w := newWorld(t, 11)
	w.batchBytes = 200_000
	for range 7 {
		w.bundle([]id.TopicPartition{tp(1, 0), tp(1, 1), tp(2, 0)}, 14)
	}
	plan, b := w.plan(1000), w.bucket
	run := func(at int64) (steps int64, err error) {
		plan.ID++
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := &counting{Bucket: fault.New(b, 1), at: at, cancel: cancel}
		e := env(c)
		e.BundleBytes, e.InFlight = 11<<20, 3
		o, err := merge.Run(ctx, plan, ignore, e)
		left, listErr := b.Uploads(t.Context(), "", "", 10)
		require.NoError(t, listErr)
		require.Empty(t, left)
		if err == nil {
			w.requireOutcome(b, plan, &o)
			require.Greater(t, len(o.Bundles), 1)
			return c.n.Load(), nil
		}
		page, listErr := b.List(t.Context(), bundle.SessionPrefix(prefix, plan.ID), "", 10)
		require.NoError(t, listErr)
		for _, info := range page {
			data, err := objstoretest.Get(t.Context(), b, info.Key, 0, -1)
			require.NoError(t, err)
			_, err = bundle.Inspect(bytes.NewReader(data), info.Size)
			require.NoError(t, err)
		}
		return c.n.Load(), err
	}
	steps, err := run(-1)
	require.NoError(t, err)
	require.Greater(t, steps, int64(20))
	for at := int64(1); at <= steps; at += 1 + steps/40 {
		_, err := run(at)
		if at < steps { // at the last one the answer may come before the end is seen
			require.ErrorIs(t, err, context.Canceled, "at %d of %d", at, steps)
		}
	}
}

// TestRun_SweptMidway: whoever was taken for dead and comes back finds its upload aborted. Nothing shows under its name,
// whichever parts were there.
func TestRun_SweptMidway(t *testing.T) {
	w := newWorld(t, 13)
	w.batchBytes = 200_000
	for range 6 {
		w.bundle([]id.TopicPartition{tp(1, 0), tp(1, 1), tp(2, 0)}, 20)
	}
	plan, swept := w.plan(1000), 0
	for nth := int64(1); nth < 8; nth++ {
		plan.ID++
		c := &counting{Bucket: fault.New(w.bucket, 1), at: nth, only: objstore.OpPutPart}
		c.cancel = func() {
			page, err := w.bucket.Uploads(t.Context(), "", "", 10)
			require.NoError(t, err)
			require.NotEmpty(t, page)
			swept++
			for _, u := range page {
				require.NoError(t, w.bucket.AbortUpload(t.Context(), u))
			}
		}
		e := env(c)
		e.BundleBytes, e.InFlight = 100<<20, 3
		_, err := merge.Run(t.Context(), plan, ignore, e)
		if c.n.Load() < nth {
			require.NoError(t, err)
			break
		}
		require.ErrorIs(t, err, objstore.ErrNotFound, "swept before part %d", nth)
		written, err := w.bucket.List(t.Context(), bundle.SessionPrefix(prefix, plan.ID), "", 10)
		require.NoError(t, err)
		require.Empty(t, written)
	}
	require.Greater(t, swept, 2)
}

func TestRun_PartsAreCounted(t *testing.T) {
	w := newWorld(t, 12)
	w.batchBytes = 200_000
	for range 8 {
		w.bundle([]id.TopicPartition{tp(1, 0), tp(1, 1), tp(2, 0)}, 20)
	}
	plan := w.plan(1000)
	metered := meter.New(w.bucket, nil)
	e := env(metered)
	e.BundleBytes, e.ExtentBytes = 12<<20, 1<<20
	o, err := merge.Run(t.Context(), plan, ignore, e)
	require.NoError(t, err)
	w.requireOutcome(w.bucket, plan, &o)
	counts := metered.Counts()
	large, parts := int64(0), int64(0)
	for _, b := range o.Bundles {
		if b.Bytes > objstore.MinPart {
			large++
			parts += int64(b.Bytes)/objstore.MinPart + 1
		}
	}
	require.Greater(t, large, int64(1))
	require.Equal(t, large, counts[objstore.OpCreateUpload].Requests)
	require.Equal(t, large, counts[objstore.OpCompleteUpload].Requests)
	require.LessOrEqual(t, counts[objstore.OpPutPart].Requests, parts)
	require.EqualValues(t, len(o.Bundles)-int(large), counts[objstore.OpPut].Requests)
}
