package kafka

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/freshet-io/freshet/agent/writer"
	"github.com/freshet-io/freshet/metadata/commit"
)

// ending is a BatchWriter whose batches end by themselves, by partition.
type ending map[int32]writer.Result

func (e ending) Add(_ context.Context, batches []writer.Batch) *writer.Produce {
	p := writer.NewProduce(len(batches), nil)
	for i := range batches {
		p.Resolve(int32(i), e[batches[i].Partition.Partition])
	}
	return p
}

// TestProduce_TellsOfWhatComesAgain: of the batches with a producer id that clients send again, but for those that wait for
// such a one.
func TestProduce_TellsOfWhatComesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newProduceRig(t)
		var lost []int64
		r.cfg.Lost = func(producer int64) { lost = append(lost, producer) }
		again := []error{writer.ErrUnknownOutcome, writer.ErrNotTaken, writer.ErrSessionClosed, writer.ErrStore, writer.ErrDraining}
		ends := ending{}
		var parts []to
		for i, err := range again {
			ends[int32(i)] = writer.Failed(err)
			parts = append(parts, to{1, int32(i), from(int64(i), 0, recordBatch("a"))})
		}
		ends[5] = writer.Failed(writer.ErrUnknownOutcome)
		parts = append(parts, to{1, 5, recordBatch("no producer id")})
		ends[6], ends[7] = writer.Failed(writer.ErrGap), writer.Failed(writer.ErrRefused)
		ends[8], ends[9] = writer.Result{Outcome: commit.Accepted}, writer.Result{Outcome: commit.Fenced}
		for partition := range int32(4) {
			parts = append(parts, to{1, 6 + partition, from(7, 0, recordBatch("a"))})
		}
		parts = append(parts, to{99, 0, from(50, 0, recordBatch("no such topic"))}, to{99, 0, []byte("no batch")})
		r.cfg.Writer = ends

		got := r.send(9, produceOf(-1, parts...))
		require.Equal(t, kerr.RequestTimedOut.Code, got[0].ErrorCode)
		require.Equal(t, kerr.NotLeaderForPartition.Code, got[6].ErrorCode)
		require.Equal(t, []int64{0, 1, 2, 3, 4, 50}, lost)
	})
}
