package fetch

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/freshet-io/freshet/agent/cache/cachetest"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/extent"
)

// producers write transactions and plain records into partition 0 through the state machine, and know what of them is
// committed.
type producers struct {
	*sequencer
	refs    map[string]*metadata.TransactionRef
	next    map[string]int32
	open    map[string][]string // values of the open transaction
	decided map[string]bool     // by value: whether it was committed
	written []string            // in the order of offsets
}

func newProducers(t *testing.T, e *env, names ...string) *producers {
	t.Helper()
	p := &producers{
		sequencer: newSequencer(t, e), refs: map[string]*metadata.TransactionRef{}, next: map[string]int32{},
		open: map[string][]string{}, decided: map[string]bool{},
	}
	for _, name := range names {
		got := p.apply(t, &metadata.InitTransaction{
			TransactionalID: name, TimeoutMs: 1 << 30, ProducerID: -1, ProducerEpoch: -1,
		}).Value.(metadata.InitTransactionResult)
		p.refs[name] = &metadata.TransactionRef{
			TransactionalID: name, ProducerID: got.ProducerID, Epoch: got.Epoch, Version: metadata.ProtocolTwo,
		}
	}
	return p
}

// produce writes a batch of one record in a transaction.
func (p *producers) produce(t *testing.T, name string) {
	t.Helper()
	ref, value := p.refs[name], fmt.Sprint(name, len(p.written))
	raw := cachetest.Batch([]byte(value), int64(len(p.written)))
	raw[22] |= 0x10 // transactional
	binary.BigEndian.PutUint64(raw[43:], uint64(ref.ProducerID))
	binary.BigEndian.PutUint16(raw[51:], uint16(ref.Epoch))
	binary.BigEndian.PutUint32(raw[53:], uint32(p.next[name]))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	p.submit(t, raw)
	p.next[name]++
	p.written, p.open[name] = append(p.written, value), append(p.open[name], value)
}

func (p *producers) plain(t *testing.T) {
	t.Helper()
	value := fmt.Sprint("plain", len(p.written))
	p.submit(t, cachetest.Batch([]byte(value), int64(len(p.written))))
	p.written, p.decided[value] = append(p.written, value), true
}

func (p *producers) end(t *testing.T, name string, commits bool) {
	t.Helper()
	ref := p.refs[name]
	got := p.apply(t, &metadata.EndTransaction{TransactionRef: *ref, Commit: commits}).
		Value.(metadata.EndTransactionResult)
	ref.ProducerID, ref.Epoch, p.next[name] = got.ProducerID, got.Epoch, 0
	for _, value := range p.open[name] {
		p.decided[value] = commits
	}
	delete(p.open, name)
}

// committedReader reads as a consumer of committed records does (Kafka's CompletedFetch).
type committedReader struct {
	offset int64
	values []string
}

// step does one fetch; it reports whether the answer said that this is the end.
func (c *committedReader) step(t *testing.T, e *env, maxBytes int) (end bool) {
	t.Helper()
	pass(time.Millisecond) // of the bubble: later than what was confirmed so far
	p := part(0, c.offset)
	p.MaxBytes = maxBytes
	req := committed(p)
	req.MaxWait = 0
	resp := e.fetcher.Fetch(t.Context(), req)
	defer resp.Release()
	r := &resp.Results[0]
	if r.Err != nil {
		require.Equal(t, kerr.NotLeaderForPartition, r.Err)
		return false
	}
	aborted := slices.Clone(r.Aborted)
	slices.SortFunc(aborted, func(a, b extent.Aborted) int { return int(a.First - b.First) })
	skipping := map[int64]bool{}
	for b, err := range kafkaproto.Batches(records(r)) {
		require.NoError(t, err)
		require.LessOrEqual(t, b.LastOffset(), r.Marks.LastStable-1)
		for len(aborted) > 0 && aborted[0].First <= b.LastOffset() {
			skipping[aborted[0].ProducerID] = true
			aborted = aborted[1:]
		}
		c.offset = b.LastOffset() + 1
		if b.Control() {
			delete(skipping, b.ProducerID())
			continue
		}
		if b.Transactional() && skipping[b.ProducerID()] {
			continue
		}
		for rec, err := range kafkaproto.Records(b, 1<<20) {
			require.NoError(t, err)
			c.values = append(c.values, string(rec.Value))
		}
	}
	require.Empty(t, aborted, "what is named begins in the answer")
	return r.Size == 0 && c.offset >= r.Marks.LastStable
}

// TestFetcher_Transactions: producers of overlapping transactions, readers of committed records at the live edge and
// behind it, with small windows, breaks, outages and deaf streams: each reader gets exactly the committed records in
// the order of their offsets.
func TestFetcher_Transactions(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 9))
				e := newEnvWith(t, Config{AskTimeout: 50 * time.Millisecond}, view.Config{
					WindowExtents: 1 + rng.IntN(8), LookupExtents: 1 + rng.IntN(12), ProbeTimeout: 50 * time.Millisecond,
				})
				names := []string{"a", "b", "c", "d"}
				p := newProducers(t, e, names...)
				readers := make([]committedReader, 4)
				down := false
				for range 400 {
					name := names[rng.IntN(len(names))]
					switch rng.IntN(12) {
					case 0, 1, 2, 3:
						p.produce(t, name)
					case 4:
						p.plain(t)
					case 5, 6:
						if p.open[name] != nil {
							p.end(t, name, rng.IntN(2) == 0)
						}
					case 7:
						switch {
						case down:
							e.stream.Mend()
							down = false
						case rng.IntN(3) == 0:
							e.stream.Cut()
							down = true
						case rng.IntN(2) == 0:
							e.stream.Hold()
						default:
							e.stream.Resume()
						}
					default:
						readers[rng.IntN(len(readers)-1)].step(t, e, 1+rng.IntN(400)) // one begins when all is written
					}
				}
				if down {
					e.stream.Mend()
				}
				e.stream.Resume()
				for _, name := range names {
					if p.open[name] != nil {
						p.end(t, name, true)
					}
				}
				want := slices.DeleteFunc(slices.Clone(p.written), func(v string) bool { return !p.decided[v] })
				for i := range readers {
					for n := 0; !readers[i].step(t, e, 1+rng.IntN(400)); n++ {
						require.Less(t, n, 2000, "the end is never reached")
					}
					require.Equal(t, want, readers[i].values, "reader %d", i)
				}
			})
		})
	}
}
