package kafka

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/metadata"
)

// describeTransactions answers as the owner does, as far as producer ids go.
func (r *produceRig) describeTransactions(_ context.Context, f client.Forward) ([]byte, error) {
	r.described.Add(1)
	if r.describe != nil {
		return nil, r.describe
	}
	in := kmsg.NewPtrDescribeTransactionsRequest()
	if f.Key != in.Key() {
		return nil, errors.New("asked something else")
	}
	if err := in.ReadFrom(f.Body); err != nil {
		return nil, err
	}
	out := kmsg.NewPtrDescribeTransactionsResponse()
	for _, name := range in.TransactionalIDs {
		s := kmsg.NewDescribeTransactionsResponseTransactionState()
		s.TransactionalID, s.ErrorCode = name, kerr.TransactionalIDNotFound.Code
		r.seq.mu.Lock()
		if known, ok := r.seq.state.Transaction(name); ok {
			s.ErrorCode, s.ProducerID = 0, known.ProducerID
		}
		r.seq.mu.Unlock()
		out.TransactionStates = append(out.TransactionStates, s)
	}
	return out.AppendTo(nil), nil
}

// TestProduce_ProducerOfAnotherTransactionalID: what a request is authorized by is what its producer writes under, before
// and while the producer's transaction is open.
func TestProduce_ProducerOfAnotherTransactionalID(t *testing.T) {
	for v := int16(3); v <= 13; v++ {
		synctest.Test(t, func(t *testing.T) {
			r := newProduceRig(t)
			mine, theirs := r.transact("mine"), r.transact("theirs")
			r.stamp = 1 << 40 // newer than all
			send := func(name string, producer int64, sequence int32) []kmsg.ProduceResponseTopicPartition {
				in := produceOf(-1, to{1, 0, transactional(from(producer, sequence, recordBatch("a")))}, to{2, 0, recordBatch("plain")})
				in.TransactionID = &name
				return r.send(v, in)
			}
			for _, name := range []string{"mine", "nobody"} {
				got := send(name, theirs, 0)
				require.Equal(t, kerr.InvalidProducerIDMapping.Code, got[0].ErrorCode)
				require.Zero(t, got[1].ErrorCode, "not transactional")
			}
			require.Zero(t, send("mine", mine, 0)[0].ErrorCode)
			require.Zero(t, send("theirs", theirs, 0)[0].ErrorCode)
			asked := r.described.Load()
			require.Equal(t, kerr.InvalidProducerIDMapping.Code, send("mine", theirs, 1)[0].ErrorCode)
			require.Zero(t, send("mine", mine, 1)[0].ErrorCode)
			require.Equal(t, asked, r.described.Load(), "whose a producer is never changes")
			require.EqualValues(t, 4, asked)
		})
	}
}

// TestProduce_ProducerUnknownWithoutControlPlane: clients come again; producers known before go on.
func TestProduce_ProducerUnknownWithoutControlPlane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newProduceRig(t)
		producer := r.transact("tx")
		send := func(sequence int32) int16 {
			in := produceOf(-1, to{1, 0, transactional(from(producer, sequence, recordBatch("a")))})
			in.TransactionID = kmsg.StringPtr("tx")
			return r.send(12, in)[0].ErrorCode
		}
		r.describe = client.ErrUnavailable
		require.Equal(t, kerr.NotEnoughReplicas.Code, send(0))
		r.describe = nil
		require.Zero(t, send(0))
		r.describe = client.ErrUnavailable
		require.Zero(t, send(1))
	})
}

// TestProduce_ProducerNotAskedForLong: a reader that waits for an owner goes on in time.
func TestProduce_ProducerNotAskedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newProduceRig(t)
		r.producers.to = forwarderFunc(func(ctx context.Context, _ client.Forward) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		in := produceOf(-1, to{1, 0, transactional(from(1, 0, recordBatch("a")))})
		in.TransactionID = kmsg.StringPtr("tx")
		began := time.Now()
		require.Equal(t, kerr.NotEnoughReplicas.Code, r.send(12, in)[0].ErrorCode)
		require.Equal(t, produceFreshTimeout, time.Since(began))
	})
}

// TestTransactionalIDs_AreBounded: at the bound one producer ID is forgotten for each new one, the least recently used.
func TestTransactionalIDs_AreBounded(t *testing.T) {
	r := &produceRig{t: t, seq: &sequencer{state: metadata.New()}}
	ids := transactionalIDs{to: forwarderFunc(r.describeTransactions)}
	name := strings.Repeat("x", 64)
	const bound = maxKnownBytes / (knownBytes + 64)
	for p := range int64(bound) {
		ids.learn(p, name)
	}
	_, ok := ids.known(0) // used again, so 1 is the oldest
	require.True(t, ok)
	ids.learn(bound, name)
	ids.learn(bound, name)
	require.Len(t, ids.mu.of, bound)
	for p, want := range map[int64]bool{0: true, 1: false, 2: true, bound: true} {
		_, ok := ids.known(p)
		require.Equal(t, want, ok, "producer ID %d", p)
	}
	err := ids.check(t.Context(), &edge.Request{Client: &edge.Client{}}, name, 1)
	require.ErrorIs(t, err, kerr.InvalidProducerIDMapping, "forgotten, and there is no such transactional ID")
	require.EqualValues(t, 1, r.described.Load())

	ids.learn(bound+1, strings.Repeat("y", maxKnownBytes/2))
	require.LessOrEqual(t, ids.mu.bytes, maxKnownBytes)
	require.Len(t, ids.mu.of, ids.mu.used.Len())
	require.Less(t, len(ids.mu.of), bound*3/4)
}
