package kafkaproto

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"runtime"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/internal/batchtest"
)

const testMax = 1 << 20

// batchOf builds an uncompressed batch of n records with keys k0..., values v0... and timestamps 1000, 1010, ... by
// kmsg, whose encoding is not ours.
func batchOf(n int) RecordBatch {
	var records []byte
	for i := range n {
		r := kmsg.Record{
			TimestampDelta64: int64(10 * i), OffsetDelta: int32(i),
			Key: fmt.Appendf(nil, "k%d", i), Value: fmt.Appendf(nil, "v%d", i),
			Headers: []kmsg.Header{{Key: "h", Value: []byte("x")}, {Key: "null"}},
		}
		r.Length = int32(len(r.AppendTo(nil)) - 1)
		records = append(records, r.AppendTo(nil)...)
	}
	return wrap(kmsg.RecordBatch{
		Magic: 2, LastOffsetDelta: int32(n - 1), FirstTimestamp: 1000, MaxTimestamp: int64(1000 + 10*(n-1)),
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(n), Records: records,
	})
}

// wrap sets a batch's length and checksum.
func wrap(b kmsg.RecordBatch) RecordBatch {
	b.Length = int32(BatchOverhead - lengthOverhead + len(b.Records))
	out := RecordBatch(b.AppendTo(nil))
	out.checksum()
	return out
}

// changed gives a copy of b with a change made and the checksum set again.
func changed(b RecordBatch, change func(b RecordBatch)) RecordBatch {
	b = bytes.Clone(b)
	change(b)
	b.checksum()
	return b
}

func put16(at int, v int16) func(RecordBatch) {
	return func(b RecordBatch) { binary.BigEndian.PutUint16(b[at:], uint16(v)) }
}

func put32(at int, v int32) func(RecordBatch) {
	return func(b RecordBatch) { binary.BigEndian.PutUint32(b[at:], uint32(v)) }
}

func put64(at int, v int64) func(RecordBatch) {
	return func(b RecordBatch) { binary.BigEndian.PutUint64(b[at:], uint64(v)) }
}

func TestRecordBatch_FieldsAgreeWithKmsg(t *testing.T) {
	want := kmsg.RecordBatch{
		FirstOffset: 1 << 40, Length: 49, PartitionLeaderEpoch: 7, Magic: 2, Attributes: 0x5a, LastOffsetDelta: 9,
		FirstTimestamp: 123456789012, MaxTimestamp: 123456789099, ProducerID: 1 << 35, ProducerEpoch: 3, FirstSequence: 17,
		NumRecords: 10,
	}
	b := wrap(want)
	require.Equal(t, want.FirstOffset, b.BaseOffset())
	require.Equal(t, want.FirstOffset+9, b.LastOffset())
	require.Equal(t, BatchOverhead, b.Length())
	require.Equal(t, want.PartitionLeaderEpoch, b.PartitionLeaderEpoch())
	require.Equal(t, want.Attributes, b.Attributes())
	require.Equal(t, Snappy, b.Codec())
	require.True(t, b.LogAppendTime())
	require.True(t, b.Transactional())
	require.False(t, b.Control())
	require.True(t, b.DeleteHorizon())
	require.Equal(t, want.FirstTimestamp, b.BaseTimestamp())
	require.Equal(t, want.MaxTimestamp, b.MaxTimestamp())
	require.Equal(t, want.ProducerID, b.ProducerID())
	require.Equal(t, want.ProducerEpoch, b.ProducerEpoch())
	require.Equal(t, want.FirstSequence, b.BaseSequence())
	require.Equal(t, want.NumRecords, b.RecordCount())
	require.Equal(t, b.ComputeCRC(), b.CRC())
}

func TestRecordBatch_Patches(t *testing.T) {
	b := batchOf(3)
	b.SetBaseOffset(500)
	b.SetPartitionLeaderEpoch(-1)
	require.Equal(t, b.ComputeCRC(), b.CRC(), "both lie outside the checksum")
	require.EqualValues(t, 502, b.LastOffset())
	b.StampLogAppendTime(99)
	require.Equal(t, b.ComputeCRC(), b.CRC())
	require.True(t, b.LogAppendTime())
	for r, err := range Records(b, testMax) {
		require.NoError(t, err)
		require.EqualValues(t, 99, r.Timestamp)
	}
}

func TestBatches(t *testing.T) {
	p := append(append([]byte{}, batchOf(2)...), batchOf(5)...)
	var counts []int32
	for b, err := range Batches(p) {
		require.NoError(t, err)
		counts = append(counts, b.RecordCount())
	}
	require.Equal(t, []int32{2, 5}, counts)
	for cut := 1; cut < len(p); cut++ {
		var last error
		for _, last = range Batches(p[:cut]) {
		}
		if cut != len(batchOf(2)) {
			require.ErrorIs(t, last, ErrMalformed, "cut at %d", cut)
		}
	}
}

func TestValidate_Takes(t *testing.T) {
	limits := Limits{ProduceVersion: 9, MaxBytes: 1 << 20, BeforeMaxMs: math.MaxInt64, AfterMaxMs: 3_600_000, NowMs: 5000}
	idempotent := changed(batchOf(3), func(b RecordBatch) {
		put64(posProducerID, 1)(b)
		put16(posProducerEpoch, 0)(b)
		put32(posBaseSequence, math.MaxInt32)(b)
		put16(posAttributes, attrTransactional)(b)
	})
	noTimestamps := changed(batchOf(1), func(b RecordBatch) { put64(posBaseTimestamp, -1)(b); put64(posMaxTimestamp, -1)(b) })
	for _, b := range []RecordBatch{batchOf(1), batchOf(100), idempotent, noTimestamps} {
		got, err := Validate(b, limits)
		require.NoError(t, err)
		require.Equal(t, b, got)
	}
	appendTime := limits
	appendTime.LogAppendTime, appendTime.AfterMaxMs, appendTime.NowMs = true, 0, 0
	_, err := Validate(batchOf(3), appendTime)
	require.NoError(t, err, "timestamps are set, not checked")
}

func TestValidate_Refuses(t *testing.T) {
	limits := Limits{ProduceVersion: 9, MaxBytes: 1 << 20, BeforeMaxMs: 1000, AfterMaxMs: 1000, NowMs: 1500}
	good := batchOf(3)
	codec := func(c Codec) RecordBatch { return changed(good, put16(posAttributes, int16(c))) }
	corrupt := bytes.Clone(good)
	corrupt[len(corrupt)-1]++
	for name, test := range map[string]struct {
		records []byte
		change  func(*Limits)
		want    *kerr.Error
	}{
		"null":                   {nil, nil, kerr.InvalidRecord},
		"short":                  {good[:16], nil, kerr.InvalidRecord},
		"cut":                    {good[:len(good)-1], nil, kerr.InvalidRecord},
		"two batches":            {append(bytes.Clone(good), good...), nil, kerr.InvalidRecord},
		"trailing byte":          {append(bytes.Clone(good), 0), nil, kerr.InvalidRecord},
		"magic 1":                {changed(good, func(b RecordBatch) { b[posMagic] = 1 }), nil, kerr.InvalidRecord},
		"magic 3":                {changed(good, func(b RecordBatch) { b[posMagic] = 3 }), nil, kerr.CorruptMessage},
		"negative magic":         {changed(good, func(b RecordBatch) { b[posMagic] = 255 }), nil, kerr.CorruptMessage},
		"tiny length":            {changed(good, put32(posLength, 10)), nil, kerr.CorruptMessage},
		"negative length":        {changed(good, put32(posLength, -1)), nil, kerr.CorruptMessage},
		"base offset":            {changed(good, put64(posBaseOffset, 1)), nil, kerr.InvalidRecord},
		"checksum":               {corrupt, nil, kerr.CorruptMessage},
		"too large":              {good, func(l *Limits) { l.MaxBytes = int32(len(good)) - 1 }, kerr.MessageTooLarge},
		"no records":             {changed(good, func(b RecordBatch) { put32(posRecordCount, 0)(b) }), nil, kerr.InvalidRecord},
		"count and offsets":      {changed(good, put32(posLastOffsetDelta, 3)), nil, kerr.InvalidRecord},
		"negative delta":         {changed(good, put32(posLastOffsetDelta, -1)), nil, kerr.InvalidRecord},
		"count beyond the bytes": {changed(good, func(b RecordBatch) { put32(posLastOffsetDelta, 999)(b); put32(posRecordCount, 1000)(b) }), nil, kerr.InvalidRecord},
		"control":                {changed(good, put16(posAttributes, attrControl)), nil, kerr.InvalidRecord},
		"delete horizon":         {changed(good, put16(posAttributes, attrDeleteHorizon)), nil, kerr.InvalidRecord},
		"no sequence":            {changed(good, func(b RecordBatch) { put64(posProducerID, 1)(b); put16(posProducerEpoch, 0)(b) }), nil, kerr.InvalidRecord},
		"no epoch":               {changed(good, func(b RecordBatch) { put64(posProducerID, 1)(b); put32(posBaseSequence, 0)(b) }), nil, kerr.InvalidProducerEpoch},
		"transactional, nobody":  {changed(good, put16(posAttributes, attrTransactional)), nil, kerr.InvalidRecord},
		"codec 5":                {codec(5), nil, kerr.UnsupportedCompressionType},
		"zstd before version 7":  {codec(Zstd), func(l *Limits) { l.ProduceVersion = 6 }, kerr.UnsupportedCompressionType},
		"log append time":        {changed(good, put16(posAttributes, attrLogAppendTime)), nil, kerr.InvalidTimestamp},
		"too old":                {good, func(l *Limits) { l.NowMs = 2001; l.AfterMaxMs = 1 << 40 }, kerr.InvalidTimestamp},
		"too new":                {good, func(l *Limits) { l.NowMs = 19 }, kerr.InvalidTimestamp},
	} {
		t.Run(name, func(t *testing.T) {
			l := limits
			if test.change != nil {
				test.change(&l)
			}
			_, err := Validate(test.records, l)
			var batch *BatchError
			require.ErrorAs(t, err, &batch)
			require.ErrorIs(t, err, test.want)
			require.NotEmpty(t, batch.Detail)
		})
	}
}

func TestRecords_EveryCodec(t *testing.T) {
	plain := batchOf(50)
	plain.SetBaseOffset(1000)
	for codec := NoCodec; codec <= Zstd; codec++ {
		t.Run(codec.String(), func(t *testing.T) {
			b := batchtest.Compress(t, plain, codec)
			require.Equal(t, codec, b.Codec())
			require.Equal(t, len(b), b.Length())
			require.Equal(t, b.ComputeCRC(), b.CRC())
			i := 0
			for r, err := range Records(b, testMax) {
				require.NoError(t, err)
				require.EqualValues(t, 1000+i, r.Offset)
				require.EqualValues(t, 1000+10*i, r.Timestamp)
				require.Equal(t, fmt.Sprintf("k%d", i), string(r.Key))
				require.Equal(t, fmt.Sprintf("v%d", i), string(r.Value))
				i++
			}
			require.Equal(t, 50, i)
			again, err := Decompress(codec, b[BatchOverhead:], testMax)
			require.NoError(t, err)
			require.Equal(t, []byte(plain[BatchOverhead:]), again)

			_, err = Decompress(codec, b[BatchOverhead:], 100)
			require.ErrorIs(t, err, ErrCorrupt, "bounded")
			broken := bytes.Clone(b)
			for j := range broken[BatchOverhead:] {
				broken[BatchOverhead+j] ^= 0x5a
			}
			var last error
			for _, last = range Records(broken, testMax) {
			}
			require.ErrorIs(t, last, ErrCorrupt)
		})
	}
}

func TestDecompress_XerialFraming(t *testing.T) {
	framed := append(bytes.Clone(xerialMagic), 0, 0, 0, 1, 0, 0, 0, 1)
	for _, part := range []string{"hello ", "framed ", "world"} {
		block := snappy.Encode(nil, []byte(part))
		framed = binary.BigEndian.AppendUint32(framed, uint32(len(block)))
		framed = append(framed, block...)
	}
	p, err := Decompress(Snappy, framed, testMax)
	require.NoError(t, err)
	require.Equal(t, "hello framed world", string(p))
	_, err = Decompress(Snappy, framed, 17)
	require.ErrorIs(t, err, ErrCorrupt)
	for cut := range len(framed) {
		if p, err := Decompress(Snappy, framed[:cut], testMax); err == nil {
			require.Less(t, len(p), len("hello framed world"))
		}
	}
}

// TestDecompress_BombsAreBounded: output stops at the bound, and a claimed size allocates nothing.
func TestDecompress_BombsAreBounded(t *testing.T) {
	zeros := make([]byte, 32<<20)
	for codec := Gzip; codec <= Zstd; codec++ {
		bomb := batchtest.CompressRecords(t, zeros, codec)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Decompress(codec, bomb, testMax)
		runtime.ReadMemStats(&after)
		require.ErrorIs(t, err, ErrCorrupt, codec)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(24<<20), codec)
	}
}

// TestAppendControlBatch holds the bytes that Kafka's MemoryRecords.withEndTransactionMarker gives, without a leader epoch.
func TestAppendControlBatch(t *testing.T) {
	const want = "0000000000000005" + // base offset
		"00000042" + "ffffffff" + "02" + // length, leader epoch, magic
		"%s" + "0030" + "00000000" + // checksum, attributes, last offset delta
		"000000000000000a" + "000000000000000a" + // timestamps
		"0000000000000007" + "0003" + "ffffffff" + "00000001" + // producer, sequence, count
		"20" + "000000" + "08" + "0000000%d" + "0c" + "000000000009" + "00"
	for _, m := range []Marker{Abort, Commit} {
		b := RecordBatch(AppendControlBatch(nil, 5, 10, 7, 3, m, 9))
		require.Len(t, b, ControlBatchSize)
		crc := binary.BigEndian.AppendUint32(nil, b.ComputeCRC())
		require.Equal(t, fmt.Sprintf(want, hex.EncodeToString(crc), m), hex.EncodeToString(b))
		require.True(t, b.Control())

		var control kmsg.RecordBatch
		require.NoError(t, control.ReadFrom(b))
		var record kmsg.Record
		require.NoError(t, record.ReadFrom(control.Records))
		var key kmsg.ControlRecordKey
		require.NoError(t, key.ReadFrom(record.Key))
		require.EqualValues(t, m, key.Type)
		var value kmsg.EndTxnMarker
		require.NoError(t, value.ReadFrom(record.Value))
		require.EqualValues(t, 9, value.CoordinatorEpoch)
	}
}

func TestAppendEmptyBatches(t *testing.T) {
	require.Empty(t, AppendEmptyBatches(nil, 5, 4))
	b := RecordBatch(AppendEmptyBatches(nil, 5, 9))
	require.Len(t, b, EmptyBatchSize)
	require.EqualValues(t, 5, b.BaseOffset())
	require.EqualValues(t, 9, b.LastOffset())
	require.Zero(t, b.RecordCount())
	require.Equal(t, b.ComputeCRC(), b.CRC())

	wide, at := AppendEmptyBatches(nil, 0, 5<<31), int64(0)
	for b, err := range Batches(wide) {
		require.NoError(t, err)
		require.Equal(t, at, b.BaseOffset())
		at = b.LastOffset() + 1
	}
	require.EqualValues(t, 5<<31+1, at)
}

// FuzzBatch: no bytes make validation, walking or opening panic or take much memory.
func FuzzBatch(f *testing.F) {
	for codec := NoCodec; codec <= Zstd; codec++ {
		f.Add([]byte(batchtest.Compress(f, batchOf(3), codec)))
	}
	f.Add(AppendControlBatch(nil, 1, 2, 3, 4, Commit, 5))
	f.Fuzz(func(t *testing.T, p []byte) {
		for b, err := range Batches(p) {
			if err != nil {
				break
			}
			if v, err := Validate(changed(b, func(RecordBatch) {}), Limits{ProduceVersion: 9, MaxBytes: 1 << 20}); err == nil {
				v.StampLogAppendTime(1)
			}
			n := int32(0)
			for _, err := range Records(b, 1<<16) {
				if err != nil {
					break
				}
				n++
			}
			if n > 1<<16 {
				t.Fatal("more records than bytes")
			}
		}
	})
}
