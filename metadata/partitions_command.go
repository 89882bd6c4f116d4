package metadata

import (
	"encoding/binary"

	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/internal/wire"
)

// CommitBundle gives a bundle's batches their offsets. Encoded is a commit as the agent encoded it (package
// commit). Result: *commit.Result. Applied in order of n; the owner holds back what is early.
type CommitBundle struct{ Encoded []byte }

func (c *CommitBundle) appendBody(dst []byte) []byte { return append(dst, c.Encoded...) }

func (c *CommitBundle) readBody(w *wire.Reader) { c.Encoded = w.Rest() }

// AbandonSubmission settles a submission that will never come. Result: *commit.Result (Abandoned, or the result
// it already has).
type AbandonSubmission struct{ Submission id.Submission }

func (c *AbandonSubmission) appendBody(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(c.Submission.Session))
	return binary.AppendUvarint(dst, uint64(c.Submission.N))
}

func (c *AbandonSubmission) readBody(w *wire.Reader) {
	c.Submission = id.Submission{Session: id.Session(w.Uint32()), N: w.Uint32()}
}

// TrimPartitions raises log starts (DeleteRecords, retention). An offset of -1 means the high watermark.
// Result: []TrimResult.
type TrimPartitions struct{ Trims []Trim }

// Trim raises one partition's log start.
type Trim struct {
	Partition id.TopicPartition
	Offset    int64
}

// TrimResult answers a Trim: the log start now, or an error.
type TrimResult struct {
	LogStart int64
	Err      error
}

func (c *TrimPartitions) appendBody(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(c.Trims)))
	for _, t := range c.Trims {
		dst = binary.AppendVarint(appendPartition(dst, t.Partition), t.Offset)
	}
	return dst
}

func (c *TrimPartitions) readBody(w *wire.Reader) {
	n := w.Count(18)
	if n == 0 {
		return
	}
	c.Trims = make([]Trim, 0, n)
	for range n {
		c.Trims = append(c.Trims, Trim{Partition: readPartition(w), Offset: w.Varint()})
	}
}
