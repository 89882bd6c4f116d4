package zonewriter

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/freshet-io/freshet/agent/writer"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	me    id.Session = 1
	other id.Session = 2
)

var topic = id.Topic{7}

// batch is a valid batch of one record with a value of n bytes. pid -1 is none.
func batch(partition int32, pid int64, seq int32, n int) writer.Batch {
	record := kmsg.NewRecord()
	record.Value = make([]byte, n)
	record.Value[0] = byte(seq)
	record.Length = int32(len(record.AppendTo(nil)) - 1)
	for { // the length's own length counts
		again := int32(len(record.AppendTo(nil))) - int32(varintSize(record.Length))
		if again == record.Length {
			break
		}
		record.Length = again
	}
	b := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, FirstTimestamp: 1, MaxTimestamp: 1, ProducerID: pid, ProducerEpoch: int16(min(pid, 0)),
		FirstSequence: seq, NumRecords: 1, Records: record.AppendTo(nil),
	}
	b.Length = int32(49 + len(b.Records))
	raw := kafkaproto.RecordBatch(b.AppendTo(nil))
	raw.StampLogAppendTime(1) // sets the checksum
	return writer.BatchOf(id.TopicPartition{Topic: topic, Partition: partition}, raw)
}

func varintSize(n int32) int {
	size := 1
	for u := uint32(n)<<1 ^ uint32(n>>31); u >= 0x80; u >>= 7 {
		size++
	}
	return size
}

// own is an agent's writer that settles what it is told to.
type own struct {
	mu      sync.Mutex
	added   []added
	flushes int
	closed  chan struct{} // nil: Add goes through; else it waits until it is closed
	refuse  error
	slow    bool // what is added is long on its way to the object store
}

type added struct {
	batch  writer.Batch
	settle func(writer.Result)
}

func (o *own) Add(ctx context.Context, batches []writer.Batch) *writer.Produce {
	o.mu.Lock()
	closed, refuse := o.closed, o.refuse
	var lease writer.Lease // without one, batches are as if handed in for commit: nobody can withdraw them
	if o.slow {
		lease = batches[0].Lease
	}
	o.mu.Unlock()
	p := writer.NewProduce(len(batches), lease)
	if closed != nil {
		select {
		case <-closed:
		case <-ctx.Done():
			refuse = writer.ErrNotTaken
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range batches {
		if refuse != nil {
			defer p.Resolve(int32(i), writer.Failed(refuse))
			continue
		}
		b := batches[i]
		b.Bytes = append([]byte(nil), b.Bytes...)
		o.added = append(o.added, added{b, func(r writer.Result) { p.Resolve(int32(i), r) }})
	}
	return p
}

func (o *own) Flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flushes++
}

// take gives what was added since.
func (o *own) take() []added {
	o.mu.Lock()
	defer o.mu.Unlock()
	a := o.added
	o.added = nil
	return a
}

func accepted(base int64) writer.Result {
	return writer.Result{Outcome: commit.Accepted, Base: base, LogStart: 3}
}

// world is two agents: a route at the one, a taker at the other.
type world struct {
	t         *testing.T
	mine, its *own
	route     *Route
	taker     *Taker
	stop      context.CancelFunc
	ended     chan struct{}
	serving   sync.WaitGroup
	mu        sync.Mutex
	unreached bool
	unfit     atomic.Bool // what the taker's agent says
	dials     int
	conns     []net.Conn              // the route's ends
	transmit  func(net.Conn) net.Conn // the route's end
	receive   func(net.Conn) net.Conn // the taker's
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, mine: &own{}, its: &own{}, ended: make(chan struct{}), transmit: asItIs, receive: asItIs}
	w.taker = NewTaker(TakerConfig{Own: w.its, Fit: func() bool { return !w.unfit.Load() }})
	w.route = New(Config{
		Own: w.mine, Session: func() id.Session { return me }, Agents: func() int { return 2 }, Dial: w.dial,
	})
	ctx, cancel := context.WithCancel(t.Context())
	w.stop = cancel
	go func() {
		defer close(w.ended)
		_ = w.route.Run(ctx)
	}()
	t.Cleanup(w.close)
	return w
}

func asItIs(c net.Conn) net.Conn { return c }

func (w *world) close() {
	w.stop()
	<-w.ended
	w.taker.Close()
	w.serving.Wait()
}

func (w *world) dial(context.Context, id.Session) (net.Conn, *bufio.Reader, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dials++
	if w.unreached {
		return nil, nil, errors.New("nobody there")
	}
	a, b := net.Pipe()
	a, b = w.transmit(a), w.receive(b)
	w.conns = append(w.conns, a)
	w.serving.Go(func() { w.taker.Serve(b, bufio.NewReader(b), me) })
	return a, bufio.NewReader(a), nil
}

// tell names the writer, and waits until that has had its effect.
func (w *world) tell(session id.Session) {
	w.t.Helper()
	w.route.OnZoneWriter(&api.ZoneWriter{Session: uint32(session), PutShare: 0.5})
	synctest.Wait()
}

func (w *world) add(batches ...writer.Batch) *writer.Produce {
	w.t.Helper()
	p := w.route.Add(w.t.Context(), batches)
	synctest.Wait()
	return p
}

// one gives the only batch that was added to o since.
func (w *world) one(o *own) added {
	w.t.Helper()
	a := o.take()
	require.Len(w.t, a, 1)
	return a[0]
}

func pending(t *testing.T, p *writer.Produce) {
	t.Helper()
	select {
	case <-p.Done():
		t.Fatal("settled")
	default:
	}
}

func settledAs(t *testing.T, p *writer.Produce) []writer.Result {
	t.Helper()
	synctest.Wait()
	select {
	case <-p.Done():
	default:
		t.Fatal("not settled")
	}
	return p.Results()
}

func zoneWriter(session id.Session) *api.ZoneWriter {
	return &api.ZoneWriter{Session: uint32(session), PutShare: 0.5}
}
