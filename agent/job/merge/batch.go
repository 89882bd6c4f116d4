package merge

import (
	"errors"
	"fmt"
	"io"

	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/extent"
)

// spareBatchBytes is what the buffer for a batch may keep after a larger one.
const spareBatchBytes = 4 << 20

// batches reads those of one extent, one at a time.
type batches struct {
	extent *extent.Extent
	source io.Reader
	at     int64 // bytes of the extent before the next batch
	next   int64 // least offset of the next batch
	// refused is the size of the last batch if read took in all of the batch and rejected it, else 0. The source is then at
	// the end of the batch.
	refused int
}

// errBatch is what is wrong with a batch, as far as reading it tells.
type errBatch struct {
	reason           string
	stored, computed uint32
}

func (e *errBatch) Error() string { return e.reason }

func bad(format string, args ...any) error { return &errBatch{reason: fmt.Sprintf(format, args...)} }

func (s *batches) left() int64 { return int64(s.extent.Length) - s.at }

// read gives the next batch in buf, or a larger buffer, with its true base offset and leader epoch. It changes nothing
// but the source if it fails. Errors: *errBatch; the source's.
func (s *batches) read(buf []byte) (kafkaproto.RecordBatch, error) {
	s.refused = 0
	if s.left() < kafkaproto.BatchOverhead {
		return nil, bad("%d bytes are no batch", s.left())
	}
	if cap(buf) < kafkaproto.BatchOverhead {
		buf = make([]byte, 64<<10)
	}
	head := kafkaproto.RecordBatch(buf[:kafkaproto.BatchOverhead])
	if err := s.fill(head); err != nil {
		return nil, err
	}
	size := head.Length()
	if head.Magic() != 2 || size < kafkaproto.BatchOverhead || int64(size) > s.left() || head.LastOffsetDelta() < 0 {
		return nil, bad("magic %d, length %d of %d, last offset delta %d", head.Magic(), size, s.left(), head.LastOffsetDelta())
	}
	if cap(buf) < size || cap(buf) > spareBatchBytes && size <= spareBatchBytes {
		larger := make([]byte, size, max(size, min(2*size, spareBatchBytes)))
		copy(larger, head)
		buf = larger
	}
	b := kafkaproto.RecordBatch(buf[:size])
	if err := s.fill(b[kafkaproto.BatchOverhead:]); err != nil {
		return nil, err
	}
	if err := s.accept(b); err != nil {
		s.refused = size
		return nil, err
	}
	return b, nil
}

// skip passes over a rejected batch, and reports whether it did. Only in a compacted extent the later batches have offsets of
// their own. If the length of the rejected batch was wrong, the next read fails too.
func (s *batches) skip() bool {
	if s.extent.Kind != extent.Absolute || s.refused == 0 {
		return false
	}
	s.at += int64(s.refused)
	s.refused = 0
	return true
}

func (s *batches) fill(p []byte) error {
	_, err := io.ReadFull(s.source, p)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return bad("bytes end within the batch")
	default:
		return err
	}
}

// accept checks a batch and makes its offset true.
func (s *batches) accept(b kafkaproto.RecordBatch) error {
	if stored, computed := b.CRC(), b.ComputeCRC(); stored != computed {
		return &errBatch{reason: "checksum differs", stored: stored, computed: computed}
	}
	if s.extent.Kind == extent.Relative {
		b.SetBaseOffset(s.next)
	}
	if b.BaseOffset() < s.next || b.LastOffset() > s.extent.Last {
		return bad("offsets [%d, %d] in an extent of [%d, %d]", b.BaseOffset(), b.LastOffset(), s.extent.Base, s.extent.Last)
	}
	b.SetPartitionLeaderEpoch(kafkaproto.LogEpoch)
	s.at += int64(len(b))
	s.next = b.LastOffset() + 1
	return nil
}

// complete tells whether the batches were what the extent says: without a hole, unless compaction wrote them.
func (s *batches) complete() error {
	if s.extent.Kind == extent.Relative && s.next != s.extent.Last+1 {
		return bad("offsets end at %d in an extent of [%d, %d]", s.next-1, s.extent.Base, s.extent.Last)
	}
	return nil
}

// control makes the control batch that a marker stands for, the same bytes that readers of the marker get.
func control(buf []byte, x *extent.Extent) kafkaproto.RecordBatch {
	m := x.EndMarker()
	end := kafkaproto.Abort
	if m.Commit {
		end = kafkaproto.Commit
	}
	return kafkaproto.AppendControlBatch(
		buf[:0], x.Base, x.MaxTimestamp, m.ProducerID, m.Epoch, end, m.CoordinatorEpoch)
}
