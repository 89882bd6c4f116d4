package metadata

import (
	"encoding/binary"

	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/internal/wire"
	"github.com/freshet-io/freshet/metadata/job"
)

type (
	// StartJob opens a background job for an agent. Result: the job's id (id.Session, from the counter of agent sessions), or
	// ErrSessionClosed if the runner's session is not open. For a Clean job: ErrJobConflict if another job cleans the partition, and
	// ErrConfigsChanged if the topic's configs differ from Clean.Configs.
	StartJob struct {
		Kind        job.Kind
		Level       uint8 // of the bundles that it will write
		Runner      id.Session
		First, Last id.TopicPartition // bounds of the partitions that it touches
		Inputs      []id.Bundle       // of a Compact job: bundles whose extents it replaces, ascending
		Clean       *Cleaning         // of a Clean job of one partition
	}

	// Cleaning is what a Clean job is started for.
	Cleaning struct {
		job.Bounds
		Configs uint64 // State.CleanupConfigs of the topic as the plan saw it
	}

	// CompleteJob applies one part of a job's outcome, in package job's encoding. Applying the same part again changes nothing. Result:
	// JobResult, ErrUnknownJob if the job has ended, or ErrInvalidOutcome.
	CompleteJob struct {
		Job     id.Session
		Last    bool // ends the job
		Outcome []byte
	}

	// AbortJob ends a job. Its objects become orphans unless an earlier part named them. Result: nil or ErrUnknownJob.
	AbortJob struct{ Job id.Session }
)

func (c *StartJob) appendBody(dst []byte) []byte {
	dst = append(dst, byte(c.Kind), c.Level)
	dst = binary.AppendUvarint(dst, uint64(c.Runner))
	dst = appendPartition(dst, c.First)
	dst = appendPartition(dst, c.Last)
	dst = appendBundles(dst, c.Inputs)
	dst = wire.AppendBool(dst, c.Clean != nil)
	if c.Clean == nil {
		return dst
	}
	dst = appendBounds(dst, &c.Clean.Bounds)
	return binary.LittleEndian.AppendUint64(dst, c.Clean.Configs)
}

// appendBounds appends three varints: From, FirstDirty-From and To-From.
func appendBounds(dst []byte, b *job.Bounds) []byte {
	dst = binary.AppendUvarint(dst, uint64(b.From))
	dst = binary.AppendUvarint(dst, uint64(b.FirstDirty-b.From))
	return binary.AppendUvarint(dst, uint64(b.To-b.From))
}

func readBounds(w *wire.Reader) job.Bounds {
	b := job.Bounds{From: w.Offset()}
	b.FirstDirty, b.To = b.From+w.Offset(), b.From+w.Offset()
	if b.FirstDirty < b.From || b.To < b.FirstDirty {
		w.Fail("bounds [%d, %d], dirty from %d", b.From, b.To, b.FirstDirty)
	}
	return b
}

func (c *StartJob) readBody(w *wire.Reader) {
	c.Kind, c.Level, c.Runner = job.Kind(w.Byte()), w.Byte(), id.Session(w.Uint32())
	c.First, c.Last, c.Inputs = readPartition(w), readPartition(w), readBundles(w)
	if w.Bool() {
		c.Clean = &Cleaning{Bounds: readBounds(w), Configs: readUint64(w)}
	}
}

func (c *CompleteJob) appendBody(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(c.Job))
	dst = wire.AppendBool(dst, c.Last)
	return wire.AppendBytes(dst, c.Outcome)
}

func (c *CompleteJob) readBody(w *wire.Reader) {
	c.Job, c.Last, c.Outcome = id.Session(w.Uint32()), w.Bool(), w.Bytes()
}

func (c *AbortJob) appendBody(dst []byte) []byte { return binary.AppendUvarint(dst, uint64(c.Job)) }

func (c *AbortJob) readBody(w *wire.Reader) { c.Job = id.Session(w.Uint32()) }

func appendPartition(dst []byte, p id.TopicPartition) []byte {
	dst = append(dst, p.Topic[:]...)
	return binary.AppendVarint(dst, int64(p.Partition))
}

func readPartition(w *wire.Reader) id.TopicPartition {
	return id.TopicPartition{Topic: readTopicID(w), Partition: w.Int32()}
}

// appendBundles appends a count and deltas. Ascending bundles take the fewest bytes.
func appendBundles(dst []byte, bundles []id.Bundle) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(bundles)))
	before := id.Bundle(0)
	for _, b := range bundles {
		dst = binary.AppendUvarint(dst, uint64(b-before))
		before = b
	}
	return dst
}

func readBundles(w *wire.Reader) []id.Bundle {
	n := w.Count(1)
	if n == 0 {
		return nil
	}
	bundles, before := make([]id.Bundle, 0, n), id.Bundle(0)
	for range n {
		before += id.Bundle(w.Uvarint())
		bundles = append(bundles, before)
	}
	return bundles
}
