package metadata

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/freshet-io/freshet/internal/assign"
	"github.com/freshet-io/freshet/metadata/internal/wire"
)

// recordEpochs are the leader epochs of the topic before, as runs: how many partitions, and their epoch.
const recordEpochs recordTag = 40

func encodeEpochs(f *sectionWriter, epochs assign.Epochs) {
	if len(epochs) == 0 {
		return
	}
	b := binary.AppendUvarint(append(f.buf, byte(recordEpochs)), uint64(len(epochs)))
	for partitions, epoch := range epochs.Runs() {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(partitions)), uint64(epoch))
	}
	f.buf = b
	f.recordDone()
}

// readEpochs reads what encodeEpochs wrote: runs as long as can be, for every partition.
func (d *snapshotDecoder) readEpochs(w *wire.Reader) {
	n := w.Count(2)
	if d.topic == nil || d.partition != nil || d.topic.topic.LeaderEpochs != nil {
		w.Fail("leader epochs out of place")
		return
	}
	t := d.topic.topic
	for range n {
		partitions, epoch := w.Uint32(), w.Uint32()
		runs := len(t.LeaderEpochs)
		if w.Err() != nil {
			return
		}
		if partitions < 1 || int64(partitions) > int64(t.Partitions-t.LeaderEpochs.Partitions()) ||
			epoch > math.MaxInt32 || uint64(epoch) > d.s.membership {
			w.Fail("leader epoch %d of %d partitions", epoch, partitions)
			return
		}
		if t.LeaderEpochs = t.LeaderEpochs.Append(int32(partitions), int32(epoch)); len(t.LeaderEpochs) == runs {
			w.Fail("leader epoch %d in two runs", epoch)
			return
		}
	}
	if t.LeaderEpochs.Partitions() != t.Partitions {
		w.Fail("leader epochs of %d of %d partitions", t.LeaderEpochs.Partitions(), t.Partitions)
	}
}

// restoreEpochs prepares a state that was read for the next change of its membership.
func (s *machine) restoreEpochs() (err error) {
	s.audiences = s.currentAudiences()
	s.topics.Scan(func(_ string, e *topicEntry) bool {
		if e.topic.LeaderEpochs == nil {
			err = fmt.Errorf("%w: topic %q without leader epochs", ErrMalformedSnapshot, e.topic.Name)
		}
		return err == nil
	})
	return err
}
