package commit

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/bytetable"
	"github.com/freshet-io/freshet/metadata/id"
)

type section struct {
	Section
	batches []Batch
}

func encode(h Header, sections []section) []byte {
	var b Builder
	b.Reset(h)
	for _, s := range sections {
		b.Section(s.Section)
		for _, a := range s.batches {
			b.Batch(a)
		}
	}
	return b.AppendTo(nil)
}

// expected gives the runs that a section's batches make.
func expected(batches []Batch) []Run {
	var runs []Run
	for _, a := range batches {
		if n := len(runs) - 1; a.ProducerID < 0 && n >= 0 && runs[n].ProducerID < 0 {
			runs[n].Batches++
			runs[n].Records += int64(a.Records)
			runs[n].Bytes += int64(a.Bytes)
			runs[n].MaxTimestamp = max(runs[n].MaxTimestamp, a.MaxTimestamp)
			continue
		}
		r := Run{
			Batches: 1, Records: int64(a.Records), Bytes: int64(a.Bytes), MaxTimestamp: a.MaxTimestamp,
			ProducerID: a.ProducerID, BaseSequence: a.BaseSequence, ProducerEpoch: a.ProducerEpoch,
			Transactional: a.Transactional, TransactionVersion: a.TransactionVersion,
		}
		if a.Transactional && a.TransactionVersion < 2 {
			r.AsOf = a.AsOf
		}
		if a.ProducerID < 0 {
			r.BaseSequence, r.ProducerEpoch, r.Transactional, r.TransactionVersion = -1, -1, false, 0
		}
		runs = append(runs, r)
	}
	return runs
}

func requireEqual(t *testing.T, r *Reader, h Header, sections []section) {
	t.Helper()
	require.Equal(t, h, r.Header())
	require.Equal(t, len(sections), r.Sections())
	var s SectionRuns
	var run Run
	for _, want := range sections {
		require.True(t, r.NextSection(&s))
		require.Equal(t, want.Section, s.Section)
		require.Equal(t, want.Partition.Topic, r.Topic(s.Topic))
		for _, wantRun := range expected(want.batches) {
			require.True(t, r.NextRun(&run))
			require.True(t, wantRun == run, "%+v instead of %+v", run, wantRun)
		}
		require.False(t, r.NextRun(&run))
	}
	require.False(t, r.NextSection(&s))
}

func topic(n byte) id.Topic { return id.Topic{15: n} }

// randomCommit makes a valid commit of all shapes.
func randomCommit(rng *rand.Rand) (Header, []section) {
	h := Header{Submission: id.Submission{Session: 1 + id.Session(rng.Uint32N(9)), N: 1 + rng.Uint32N(9)}, Acked: rng.Uint32N(5)}
	position := uint32(0)
	var sections []section
	for range rng.IntN(200) {
		position += rng.Uint32N(2) * rng.Uint32N(100)
		s := section{Section: Section{
			Partition: id.TopicPartition{Topic: topic(byte(rng.IntN(5))), Partition: rng.Int32N(1000)}, Position: position,
		}}
		for range 1 + rng.IntN(5) {
			a := Batch{Records: 1 + rng.Int32N(100), Bytes: 61 + rng.Int32N(30000), MaxTimestamp: rng.Int64N(1 << 41), ProducerID: NoProducer}
			switch rng.IntN(8) {
			case 0:
				a.MaxTimestamp = -1
			case 1:
				a.Records, a.MaxTimestamp = math.MaxInt32, math.MaxInt64-1
			}
			if rng.IntN(4) > 0 {
				a.ProducerID = rng.Int64N(20) * rng.Int64N(math.MaxInt64/20)
				a.ProducerEpoch = int16(rng.IntN(math.MaxInt16 + 1))
				a.BaseSequence = rng.Int32()
				if n := len(s.batches); n > 0 && rng.IntN(2) == 0 && s.batches[n-1].ProducerID >= 0 {
					before := s.batches[n-1]
					a.ProducerID, a.ProducerEpoch = before.ProducerID, before.ProducerEpoch
					a.BaseSequence = NextSequence(before.BaseSequence, before.Records)
				}
				a.Transactional, a.TransactionVersion = rng.IntN(5) == 0, int8(rng.IntN(3))
				a.AsOf = rng.Uint64() >> rng.IntN(64)
			}
			s.batches = append(s.batches, a)
			position += uint32(a.Bytes)
		}
		sections = append(sections, s)
	}
	h.Bytes = position
	return h, sections
}

func TestCommit_RoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var r Reader
	for range 100 {
		h, sections := randomCommit(rng)
		p := encode(h, sections)
		require.NoError(t, r.Reset(p))
		requireEqual(t, &r, h, sections)
		r.Rewind()
		requireEqual(t, &r, h, sections)
		got, err := ParseHeader(p)
		require.NoError(t, err)
		require.Equal(t, h, got)
	}
}

func TestCommit_IteratesWithoutAllocation(t *testing.T) {
	h, sections := randomCommit(rand.New(rand.NewPCG(3, 4)))
	p := encode(h, sections)
	r, err := Parse(p)
	require.NoError(t, err)
	require.Zero(t, testing.AllocsPerRun(10, func() {
		var s SectionRuns
		var run Run
		for r.Rewind(); r.NextSection(&s); {
			for r.NextRun(&run) {
			}
		}
	}))
	require.Zero(t, testing.AllocsPerRun(10, func() {
		if r.Reset(p) != nil {
			panic("reset")
		}
	}))
}

// The tables of the package comment describe commits, with and without the column as-of, and results.
func TestTables_Golden(t *testing.T) {
	l := bytetable.New(t)
	l.Forms = map[string]func([]byte, int) int{"column": func(p []byte, n int) int {
		rest, ok := skipColumn(p, n)
		require.True(t, ok)
		return len(p) - len(rest)
	}}
	p1 := Batch{Records: 3, Bytes: 100, MaxTimestamp: 1000, ProducerID: 7, ProducerEpoch: 1, BaseSequence: 300}
	p2 := Batch{Records: 2, Bytes: 90, MaxTimestamp: 1010, ProducerID: 7, ProducerEpoch: 1, BaseSequence: 303}
	p3 := Batch{Records: 1, Bytes: 80, MaxTimestamp: 990, ProducerID: 5, Transactional: true, TransactionVersion: 2}
	plain := Batch{Records: 4, Bytes: 70, MaxTimestamp: -1, ProducerID: NoProducer}
	early := Batch{Records: 1, Bytes: 100, MaxTimestamp: 9, ProducerID: 7, Transactional: true, TransactionVersion: 1, AsOf: 1 << 33}
	late := early
	late.AsOf, late.BaseSequence = 1<<33-1, 7
	h := Header{Submission: id.Submission{Session: 2, N: 9}, Acked: 8, Bytes: 1000}
	for _, sections := range [][]section{
		{
			{Section{id.TopicPartition{Topic: topic(1), Partition: 4}, 16}, []Batch{p1, p2, plain, plain}},
			{Section{id.TopicPartition{Topic: topic(2), Partition: 0}, 400}, []Batch{p3, p1}},
		},
		{{Section{id.TopicPartition{Topic: topic(1)}, 0}, []Batch{early, late}}},
	} {
		p := encode(h, sections)
		l.Bytes("doc.go", "Commit", p)
		r, err := Parse(p)
		require.NoError(t, err)
		requireEqual(t, r, h, sections)
	}
	l.Bytes("doc.go", "Block", appendBlock(nil, []uint64{300, 301, 307}))
	l.Bytes("doc.go", "Result", AppendResult(nil, exampleResult()))
	l.Bytes("doc.go", "Result", AppendResult(nil, &Result{Status: Forgotten}))
	l.Golden("testdata/commits.golden")
}

// TestCommit_Size bounds the size of an encoded commit: at most 12 bytes per idempotent batch, runs included, and
// nothing per batch without a producer id.
func TestCommit_Size(t *testing.T) {
	shape := func(sections, batches int, plain bool) float64 {
		rng := rand.New(rand.NewPCG(5, 6))
		var list []section
		position := uint32(64)
		for i := range sections {
			s := section{Section: Section{
				Partition: id.TopicPartition{Topic: topic(byte(i * 10 / sections)), Partition: rng.Int32N(1000)}, Position: position,
			}}
			for range batches {
				a := Batch{
					Records: 1 + rng.Int32N(128), Bytes: 200 + rng.Int32N(16184),
					MaxTimestamp: 1_790_000_000_000 + rng.Int64N(500), ProducerID: NoProducer,
				}
				if !plain {
					a.ProducerID, a.BaseSequence = rng.Int64N(1<<20), rng.Int32N(1<<26)
				}
				s.batches = append(s.batches, a)
				position += uint32(a.Bytes)
			}
			list = append(list, s)
		}
		h := Header{Submission: id.Submission{Session: 1000, N: 100_000}, Acked: 99_990, Bytes: position}
		n := len(encode(h, list))
		t.Logf("%d sections of %d batches, plain %t: %d bytes, %.2f each", sections, batches, plain, n, float64(n)/float64(sections*batches))
		return float64(n)
	}
	require.LessOrEqual(t, shape(1000, 1, false), 12_000.0)
	require.LessOrEqual(t, shape(64, 16, false), 12*1024.0)
	require.Less(t, shape(10, 1000, true)-shape(10, 100, true), 64.0)
}

func TestCommit_RefusesNonsense(t *testing.T) {
	tp := id.TopicPartition{Topic: topic(1)}
	ok := Batch{Records: 1, Bytes: 100, ProducerID: 1}
	h := Header{Submission: id.Submission{Session: 1, N: 1}, Bytes: 1000}
	with := func(change func(*Batch)) []section {
		b := ok
		change(&b)
		return []section{{Section{tp, 0}, []Batch{b}}}
	}
	resubmit := h
	resubmit.Resubmit = true
	cases := map[string][]byte{
		"unknown flag":      {1, 4, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0},
		"no session":        encode(Header{Submission: id.Submission{N: 1}}, nil),
		"no n":              encode(Header{Submission: id.Submission{Session: 1}}, nil),
		"empty section":     encode(h, []section{{Section{tp, 0}, nil}, {Section{tp, 0}, []Batch{ok}}}),
		"overlap":           encode(h, []section{{Section{tp, 0}, []Batch{ok}}, {Section{tp, 99}, []Batch{ok}}}),
		"beyond the object": encode(h, []section{{Section{tp, 901}, []Batch{ok}}}),
		"beyond 32 bits":    encode(h, []section{{Section{tp, math.MaxUint32}, []Batch{ok}}}),
		"partition":         encode(h, []section{{Section{id.TopicPartition{Partition: -1}, 0}, []Batch{ok}}}),
		"no records":        encode(h, with(func(b *Batch) { b.Records = 0 })),
		"negative records":  encode(h, with(func(b *Batch) { b.Records = -1 })),
		"too few bytes":     encode(h, with(func(b *Batch) { b.Bytes = 60 })),
		"negative bytes":    encode(h, with(func(b *Batch) { b.Bytes = -100 })),
		"sequence":          encode(h, with(func(b *Batch) { b.BaseSequence = -1 })),
		"epoch":             encode(h, with(func(b *Batch) { b.ProducerEpoch = -1 })),
		"plain few bytes":   encode(h, with(func(b *Batch) { b.ProducerID, b.Bytes = -1, 60 })),
		"plain no records":  encode(h, with(func(b *Batch) { b.ProducerID, b.Records = -1, 0 })),
		"plain resubmit":    encode(resubmit, with(func(b *Batch) { b.ProducerID = -1 })),
		"empty":             nil,
		"version":           {2},
	}
	_, err := Parse(encode(h, with(func(*Batch) {})))
	require.NoError(t, err)
	for name, p := range cases {
		_, err := Parse(p)
		require.ErrorIs(t, err, ErrMalformed, name)
	}
	good := encode(h, with(func(*Batch) {}))
	for i := range good {
		_, err := Parse(good[:i])
		require.ErrorIs(t, err, ErrMalformed, "cut at %d", i)
	}
	_, err = Parse(append(bytes.Clone(good), 0))
	require.ErrorIs(t, err, ErrMalformed)
}

func TestNextSequence(t *testing.T) {
	require.Equal(t, int32(5), NextSequence(2, 3))
	require.Equal(t, int32(0), NextSequence(math.MaxInt32, 1))
	require.Equal(t, int32(2), NextSequence(math.MaxInt32-7, 10))
	require.Equal(t, int32(math.MaxInt32-1), NextSequence(math.MaxInt32, math.MaxInt32))
}

func TestColumn_RoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	for width := uint(0); width <= 64; width++ {
		for _, n := range []int{1, 2, 7, 63, 64, 65, 200} {
			values := make([]uint64, n)
			for i := range values {
				values[i] = rng.Uint64()
				if width < 64 {
					values[i] &= 1<<width - 1
				}
			}
			p := appendColumn(nil, values)
			rest, ok := skipColumn(p, n)
			require.True(t, ok)
			require.Empty(t, rest)
			c := newColumn(p, n)
			for i, v := range values {
				if !c.more() || c.next() != v {
					t.Fatalf("width %d value %d of %d", width, i, n)
				}
			}
			require.False(t, c.more())
		}
	}
}

func exampleResult() *Result {
	return &Result{Status: Settled, Sections: []SectionResult{
		{LogStart: 3, Spans: []Span{{Batches: 300, Outcome: Accepted, Base: 1 << 40}, {Batches: 1, Outcome: Gap, Base: -1}}},
		{LogStart: 0, Spans: []Span{{Batches: 1, Outcome: Duplicate, Base: -1}, {Batches: 2, Outcome: NoPartition, Base: -1}}},
	}}
}

func TestResult_RoundTrip(t *testing.T) {
	r := exampleResult()
	p := AppendResult(nil, r)
	got, err := ParseResult(p)
	require.NoError(t, err)
	require.Equal(t, r, got)
	for _, status := range []Status{SessionClosed, Abandoned, Forgotten} {
		got, err := ParseResult(AppendResult(nil, &Result{Status: status}))
		require.NoError(t, err)
		require.Equal(t, &Result{Status: status}, got)
	}
	for i := range p {
		_, err := ParseResult(p[:i])
		require.ErrorIs(t, err, ErrMalformed)
	}
}

func FuzzParse(f *testing.F) {
	rng := rand.New(rand.NewPCG(7, 7))
	for range 20 {
		f.Add(encode(randomCommit(rng)))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		r, err := Parse(p)
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			return
		}
		var s SectionRuns
		var run Run
		runs, end := 0, int64(0)
		for r.NextSection(&s) {
			require.GreaterOrEqual(t, int64(s.Position), end)
			end = int64(s.Position)
			for r.NextRun(&run) {
				require.Positive(t, run.Batches)
				require.GreaterOrEqual(t, run.Records, int64(run.Batches))
				require.GreaterOrEqual(t, run.MaxTimestamp, int64(-1))
				end += run.Bytes
				runs++
			}
		}
		require.LessOrEqual(t, end, int64(r.Header().Bytes))
		require.Equal(t, r.Runs(), runs)
		require.LessOrEqual(t, runs, blockValues*len(p))
	})
}

func FuzzParseResult(f *testing.F) {
	f.Add(AppendResult(nil, &Result{Sections: []SectionResult{{LogStart: 1, Spans: []Span{{Batches: 1, Base: 4}}}}}))
	f.Fuzz(func(t *testing.T, p []byte) {
		r, err := ParseResult(p)
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			return
		}
		again, err := ParseResult(AppendResult(nil, r))
		require.NoError(t, err)
		require.Equal(t, r, again)
	})
}

func BenchmarkParse(b *testing.B) {
	rng := rand.New(rand.NewPCG(5, 6))
	var list []section
	position := uint32(0)
	for i := range 512 {
		a := Batch{Records: 1 + rng.Int32N(128), Bytes: 1000, MaxTimestamp: 1 << 40, ProducerID: rng.Int64N(1 << 20), BaseSequence: rng.Int32N(1 << 26)}
		list = append(list, section{Section{id.TopicPartition{Topic: topic(1), Partition: int32(i)}, position}, []Batch{a}})
		position += 1000
	}
	p := encode(Header{Submission: id.Submission{Session: 1, N: 1}, Bytes: position}, list)
	var r Reader
	for b.Loop() {
		if err := r.Reset(p); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*512)/b.Elapsed().Seconds(), "batches/s")
}
