package writer_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/writer"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/commit"
)

// timestamped gives a batch the largest timestamp, as a topic takes it whose message.timestamp.after.max.ms is the maximum.
func timestamped(b writer.Batch, timestamp int64) writer.Batch {
	binary.BigEndian.PutUint64(b.Bytes[35:], uint64(timestamp))
	binary.BigEndian.PutUint32(b.Bytes[17:], kafkaproto.RecordBatch(b.Bytes).ComputeCRC())
	return writer.BatchOf(b.Partition, b.Bytes)
}

func TestWriter_LargestTimestamp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newIdleRig(t, nil)
		r.OnWelcome(r.seq.open(t, "first"))
		taken := r.add(timestamped(plain(2, 1000), math.MaxInt64))
		require.Zero(t, r.accepted(taken))
		x, ok := r.seq.state.MaxTimestampExtent(partition(2), 0, math.MaxInt64)
		require.True(t, ok)
		require.Equal(t, int64(math.MaxInt64), x.MaxTimestamp)
	})
}

// TestWriter_MalformedFailsAlone adds what another agent may hand over, which checks no more than form and checksum, among good
// batches of the same Add.
func TestWriter_MalformedFailsAlone(t *testing.T) {
	change := func(at int, value uint32) writer.Batch {
		b := produce(5, 1000, 7, 0)
		binary.BigEndian.PutUint32(b.Bytes[at:], value)
		return writer.BatchOf(b.Partition, b.Bytes)
	}
	attributes := func(value uint16) writer.Batch {
		b := produce(5, 1000, 7, 0)
		binary.BigEndian.PutUint16(b.Bytes[21:], value)
		return writer.BatchOf(b.Partition, b.Bytes)
	}
	negative := plain(5, 1000)
	negative.Partition.Partition = -1
	short := plain(5, 1000)
	short.Commit.Bytes = 60
	nobody := plain(5, 1000)
	binary.BigEndian.PutUint16(nobody.Bytes[21:], 0x10)
	nobody = writer.BatchOf(nobody.Partition, nobody.Bytes)
	version := produce(5, 1000, 7, 0)
	version.Commit.TransactionVersion = -1
	for name, bad := range map[string]writer.Batch{
		"last offset delta -1": change(23, math.MaxUint32), "last offset delta max": change(23, math.MaxInt32),
		"sequence -1": change(53, math.MaxUint32), "epoch -1": change(51, math.MaxUint32), "partition -1": negative,
		"60 bytes": short, "transaction version -1": version, "record count 2": change(57, 2), "record count 0": change(57, 0),
		"control batch": attributes(0x20), "delete horizon": attributes(0x40), "transaction of nobody": nobody,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil)
				p := r.Add(t.Context(), []writer.Batch{plain(1, 1000), bad, plain(2, 1000)})
				got := p.Wait(t.Context())
				require.NoError(t, got[0].Err)
				require.ErrorIs(t, got[1].Err, writer.ErrMalformed)
				require.NoError(t, got[2].Err)
				require.Zero(t, r.accepted(r.add(plain(5, 1000))), "the next bundle is settled")
			})
		})
	}
}

// picky refuses commits with batches of some producers, as an owner of another version might.
type picky struct {
	writer.Committer
	refuses map[int64]bool
	refused int
}

func (c *picky) Commit(ctx context.Context, encoded []byte, until time.Time) (*commit.Result, error) {
	r, err := commit.Parse(encoded)
	if err != nil {
		return nil, err
	}
	var section commit.SectionRuns
	var run commit.Run
	for r.NextSection(&section) {
		for r.NextRun(&run) {
			if c.refuses[run.ProducerID] {
				c.refused++
				return nil, fmt.Errorf("%w: producer %d", client.ErrInvalid, run.ProducerID)
			}
		}
	}
	return c.Committer.Commit(ctx, encoded, until)
}

// TestWriter_IsolatesRefused: the batches beside one that the owner refuses are committed, or set aside to be sent again. They
// are committed after a few rounds, and the offender alone is refused.
func TestWriter_IsolatesRefused(t *testing.T) {
	for _, offenders := range [][]int64{{1}, {57}, {100}, {3, 4}, {1, 50, 100}} {
		t.Run(fmt.Sprint(offenders), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { isolatesRefused(t, offenders) })
		})
	}
}

func isolatesRefused(t *testing.T, offenders []int64) {
	t.Helper()
	owner := &picky{refuses: map[int64]bool{}}
	for _, o := range offenders {
		owner.refuses[o] = true
	}
	r := newRig(t, func(c *writer.Config) { owner.Committer, c.Committer = c.Committer, owner })
	waiting := map[int64]bool{}
	for p := int64(1); p <= 100; p++ {
		waiting[p] = true
	}
	for round := 0; len(waiting) > 0; round++ {
		require.Less(t, round, 20)
		sent := map[int64]*writer.Produce{}
		for p := int64(1); p <= 100; p++ {
			if waiting[p] {
				sent[p] = r.add(produce(int32(p%7), 500, p, 0))
			}
		}
		for p, produce := range sent {
			switch got := r.result(produce); {
			case owner.refuses[p] && got.Err != nil:
				require.True(t, errors.Is(got.Err, writer.ErrSetAside) || errors.Is(got.Err, writer.ErrRefused), got.Err)
				if errors.Is(got.Err, writer.ErrRefused) {
					delete(waiting, p)
				}
			case got.Err != nil:
				require.ErrorIs(t, got.Err, writer.ErrSetAside)
			default:
				require.False(t, owner.refuses[p])
				require.Equal(t, commit.Accepted, got.Outcome)
				delete(waiting, p)
			}
		}
	}
	require.Less(t, owner.refused, 20*2*8)
	r.checkObjects()
	for p := range int32(7) {
		r.checkMemory(p)
	}
}
