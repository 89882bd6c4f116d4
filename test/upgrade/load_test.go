package upgrade

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/freshet-io/freshet/internal/ledger"
	"github.com/freshet-io/freshet/test/harness"
)

const (
	partitions = 6
	producers  = 2                     // idempotent ones
	interval   = 25 * time.Millisecond // between records of one producer to one partition
	// finishing bounds every wait of a client at the end of the test.
	finishing = time.Minute
	// refresh is the metadata max age of clients, so a restarted agent gets load again within it.
	refresh = time.Second

	// Topics. Idempotent producers write sent, and groups read it. passed is a transactional copy of sent. Transactional producers write told.
	sent   = "sent"
	passed = "passed"
	told   = "told"
)

var zones = []string{"a", "b"}

var errAborted = errors.New("the transaction was aborted")

// faults holds the errors that clients saw. It is safe for concurrent use.
type faults struct {
	mu  sync.Mutex
	all []error
}

func (f *faults) add(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, fmt.Errorf("%s "+format, append([]any{time.Now().UTC().Format("15:04:05.000")}, args...)...))
}

// addCode adds an error code of Kafka, unless it is none.
func (f *faults) addCode(code int16, format string, args ...any) {
	if err := kerr.ErrorForCode(code); err != nil {
		f.add(format+": %w", append(args, err)...)
	}
}

func (f *faults) joined() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.all...)
}

// load is the set of clients that run while processes restart.
type load struct {
	t     *testing.T
	f     *fleet
	wrong *faults

	life    context.Context // of all clients
	end     context.CancelFunc
	ctx     context.Context // of all producers; a child of life
	stop    context.CancelFunc
	sending *ledger.Load
	sendEnd chan error
	told    *ledger.Ledger
	tellers []*teller
	telling sync.WaitGroup

	open    []*reader // all readers, to be closed
	passers *reader
	groups  []*reader // of sent
	readers []*reader // of passed, told
	changes map[*reader]int
}

func newLoad(t *testing.T, f *fleet) *load {
	t.Helper()
	l := &load{t: t, f: f, wrong: &faults{}, told: ledger.New(), sendEnd: make(chan error, 1), changes: map[*reader]int{}}
	l.life, l.end = context.WithCancel(context.Background())
	l.ctx, l.stop = context.WithCancel(l.life)
	return l
}

// start creates the topics, and starts readers and then producers.
func (l *load) start() {
	l.t.Helper()
	_, err := l.admin().CreateTopics(l.t.Context(), partitions, 1, nil, sent, passed, told)
	require.NoError(l.t, err)

	l.groups = []*reader{
		l.startGroup("classic", sent),
		l.startGroup("consumer", sent, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer())),
	}
	l.passers = l.startPassers(sent, passed)
	l.readers = []*reader{
		l.startReader("reader of "+passed, "a", passed),
		l.startReader("reader of "+told, "b", told),
	}
	// No transaction is open while the groups form: a rebalance would abort it.
	for _, g := range append(l.groups, l.passers) {
		l.changes[g] = g.shared(l.t)
	}
	l.sending = &ledger.Load{
		Ledger: ledger.New(), Topic: sent, Partitions: partitions, Producers: producers, Interval: interval, Options: l.options("b"),
	}
	go func() { l.sendEnd <- l.sending.Run(l.ctx, finishing) }()
	l.startTeller("teller-2", "a")
	l.startTeller("teller-1", "b", kgo.MaxVersions(kversion.V3_8_0())) // the first protocol of transactions
}

// close ends all clients at once. Call it before the cluster stops: some clients need the cluster to close.
func (l *load) close() {
	l.end()
	for _, x := range l.tellers {
		x.client.Close() // only Close fails the records in flight
	}
	l.telling.Wait()
	for _, r := range l.open {
		r.close()
	}
}

// options returns the options of every client of a zone.
func (l *load) options(zone string) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(strings.Split(l.f.Bootstrap(), ",")...), kgo.ClientID("client,zone=" + zone),
		kgo.MetadataMinAge(refresh / 10), kgo.MetadataMaxAge(refresh),
		kgo.AlwaysRetryEOF(), // an EOF at the first request of a connection means a stopping agent, not a SASL listener
	}
}

func (l *load) admin() *kadm.Client {
	l.t.Helper()
	client, err := kgo.NewClient(l.options("a")...)
	require.NoError(l.t, err)
	l.t.Cleanup(client.Close)
	return kadm.NewClient(client)
}

// flows waits until every client has made progress, and checks that none has seen an error.
func (l *load) flows() {
	l.t.Helper()
	before := l.progress()
	harness.Await(l.t, "every client makes progress", func() bool {
		l.check()
		for i, n := range l.progress() {
			if n <= before[i] {
				return false
			}
		}
		return true
	})
	l.f.flows()
	l.check()
}

// progress returns a number for each client that rises while the client works.
func (l *load) progress() (all []int) {
	all = append(all, l.sending.Ledger.Acked(), l.passers.count())
	for _, x := range l.tellers {
		all = append(all, int(x.committed.Load()))
	}
	for _, r := range append(l.groups, l.readers...) {
		all = append(all, r.count())
	}
	return all
}

// check fails the test if a client has seen an error, or if a group has rebalanced.
func (l *load) check() {
	l.t.Helper()
	require.NoError(l.t, errors.Join(append(l.sending.Failures(), l.wrong.joined())...), "clients saw errors")
	for g, settled := range l.changes {
		g.mu.Lock()
		changes := g.mu.changes
		g.mu.Unlock()
		require.Equal(l.t, settled, changes, "group %s has rebalanced", g.name)
	}
}

// finish stops the load, and checks what is stored and what was read.
func (l *load) finish() {
	l.t.Helper()
	l.stop()
	require.NoError(l.t, <-l.sendEnd)
	l.telling.Wait()
	admin := l.admin()

	ends := l.ends(admin, sent)
	stored := l.stored(sent, ends)
	require.Empty(l.t, l.sending.Ledger.Check(stored, ledger.Rules{}))
	require.Len(l.t, stored, l.sending.Ledger.Acked(), "everything sent was acknowledged, so everything is there")
	l.check() // before groups end
	for _, g := range l.groups {
		require.NoError(l.t, g.commitAll(l.t.Context()))
		l.complete(l.sending.Ledger, g, ends)
		l.committed(admin, g.name, ends)
	}
	l.copies(l.passers.finish(l.t, ends), stored)
	l.committed(admin, l.passers.name, ends)

	ends = l.ends(admin, passed)
	l.copies(l.stored(passed, ends), stored)
	l.copies(l.readers[0].finish(l.t, ends), stored)

	ends = l.ends(admin, told)
	require.Empty(l.t, l.told.Check(l.stored(told, ends), ledger.Rules{}))
	l.complete(l.told, l.readers[1], ends)
	require.NoError(l.t, l.wrong.joined())
	l.t.Logf("%d records and %d of transactions, all there once and in order, read by all; longest wait of a producer %s",
		len(stored), l.told.Acked(), l.sending.LongestWriterStall().Round(time.Millisecond))
}

// complete checks that a reader has read every record of a ledger once, in order.
func (l *load) complete(of *ledger.Ledger, r *reader, ends map[int32]int64) {
	l.t.Helper()
	require.Empty(l.t, of.Check(r.finish(l.t, ends), ledger.Rules{}), r.name)
}

// copies checks that reads are every record of a topic that is stored, once and in order, wherever they stand.
func (l *load) copies(reads, stored []ledger.Read) {
	l.t.Helper()
	of := ledger.New()
	for _, r := range stored { // finish has checked that each writer's records are in order
		name, rest, _ := strings.Cut(r.Value, "/")
		_, number, _ := strings.Cut(rest, "/")
		w := ledger.Writer{Name: name, Partition: r.Partition}
		seq, value := of.Send(w)
		require.Equal(l.t, []string{strconv.Itoa(seq), value}, []string{number, r.Value})
		of.Ack(w, seq, -1)
	}
	require.Empty(l.t, of.Check(reads, ledger.Rules{}))
}

// ends returns a topic's end offsets once no transaction is open.
func (l *load) ends(admin *kadm.Client, topic string) map[int32]int64 {
	l.t.Helper()
	ends := make(map[int32]int64)
	harness.Await(l.t, "no transaction of "+topic+" is open", func() bool {
		all, err := admin.ListEndOffsets(l.t.Context(), topic)
		require.NoError(l.t, errors.Join(err, all.Error()))
		stable, err := admin.ListCommittedOffsets(l.t.Context(), topic)
		require.NoError(l.t, errors.Join(err, stable.Error()))
		open := false
		all.Each(func(o kadm.ListedOffset) {
			ends[o.Partition] = o.Offset
			at, _ := stable.Lookup(topic, o.Partition)
			open = open || at.Offset != o.Offset
		})
		return !open
	})
	return ends
}

// stored reads a topic again, as a new reader of committed records does.
func (l *load) stored(topic string, ends map[int32]int64) []ledger.Read {
	l.t.Helper()
	return l.startReader("last reader of "+topic, "a", topic).finish(l.t, ends)
}

// committed checks that a group has committed the ends.
func (l *load) committed(admin *kadm.Client, group string, ends map[int32]int64) {
	l.t.Helper()
	offsets, err := admin.FetchOffsets(l.t.Context(), group)
	require.NoError(l.t, errors.Join(err, offsets.Error()))
	for p, end := range ends {
		o, _ := offsets.Lookup(sent, p)
		require.Equal(l.t, end, o.At, "offset of %s/%d that group %s committed", sent, p, group)
	}
}
