package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// fate is what a producer knows of one of its transactions.
type fate uint8

const (
	unknown fate = iota // all of it is there, or none
	kept
	dropped
)

// book is what producers know of their transactions: a record's value is "transaction/record".
type book struct {
	mu      sync.Mutex
	fates   map[string]fate
	sizes   map[string]int
	samples [][]int64 // high watermarks of the partitions, each of one log index
}

func newBook() *book { return &book{fates: map[string]fate{}, sizes: map[string]int{}} }

func (b *book) note(transaction string, records int, f fate) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fates[transaction], b.sizes[transaction] = f, records
}

func (b *book) count(f fate) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, each := range b.fates {
		if each == f {
			n++
		}
	}
	return n
}

// tellers are transactional producers that abort at random, and copiers that move what is in one topic to another with
// its offsets, exactly once.
type tellers struct {
	*cluster
	book   *book
	base   []kgo.Opt // of all clients
	cancel context.CancelFunc
	done   sync.WaitGroup
	copied sync.Map // partition of the source -> offset up to which a copier committed
}

// Topics of the tellers and their partitions.
const (
	tellersTopic = "tellers"
	sourceTopic  = "source"
	sinkTopic    = "sink"
	copiersGroup = "copiers"
	tellerParts  = 3
	sourceParts  = 2
)

// startTellers runs producers and copiers of both protocols until stop.
func (c *cluster) startTellers(seed uint64, each int) *tellers {
	c.t.Helper()
	for topic, partitions := range map[string]int32{tellersTopic: tellerParts, sourceTopic: sourceParts, sinkTopic: 2} {
		c.createTopic(topic, partitions)
	}
	ctx, cancel := context.WithCancel(context.Background())
	x := &tellers{cluster: c, book: newBook(), base: c.clientOptions(), cancel: cancel}
	c.t.Cleanup(cancel)
	for i := range each {
		for n, old := range []bool{false, true} {
			name := fmt.Sprintf("teller-%d-%d", i, n+1)
			rng := rand.New(rand.NewPCG(seed, uint64(2*i+n)))
			x.done.Go(func() { x.tell(ctx, name, old, rng) })
		}
	}
	for p := range int32(sourceParts) {
		rng := rand.New(rand.NewPCG(seed, uint64(1000+p)))
		x.done.Go(func() { x.feed(ctx, p) })
		x.done.Go(func() { x.copy(ctx, p, p%2 == 0, rng) })
	}
	x.done.Go(func() { x.sample(ctx) })
	return x
}

// client makes a client of the agents there were at the start: their addresses stay. Safe while agents are replaced.
func (x *tellers) client(more ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(slices.Clone(x.base), more...)...)
}

// transactional makes a client; old ones speak the first protocol.
func (x *tellers) transactional(name string, old bool) (*kgo.Client, error) {
	opts := []kgo.Opt{
		kgo.TransactionalID(name), kgo.TransactionTimeout(x.opts.work.stretch(20 * time.Second)), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RetryTimeout(20 * time.Second), kgo.RecordDeliveryTimeout(15 * time.Second),
	}
	if old {
		opts = append(opts, kgo.MaxVersions(kversion.V3_8_0()))
	}
	return x.client(opts...)
}

// tell produces transactions one after the other. A client that does not know how one ended is replaced, which fences
// it and aborts what it left.
func (x *tellers) tell(ctx context.Context, name string, old bool, rng *rand.Rand) {
	var client *kgo.Client
	for n := 0; ctx.Err() == nil; n++ {
		if client == nil {
			var err error
			if client, err = x.transactional(name, old); err != nil {
				x.t.Error(err)
				return
			}
		}
		if !x.transaction(ctx, client, fmt.Sprintf("%s-%d", name, n), rng) {
			client.Close()
			client = nil
		}
	}
	if client != nil {
		client.Close()
	}
}

// transaction produces one transaction; false if its end is not known.
func (x *tellers) transaction(ctx context.Context, client *kgo.Client, name string, rng *rand.Rand) bool {
	records := make([]*kgo.Record, 1+rng.IntN(6))
	for i := range records {
		records[i] = &kgo.Record{
			Topic: tellersTopic, Partition: int32(rng.IntN(tellerParts)), Value: []byte(fmt.Sprintf("%s/%d", name, i)),
		}
	}
	x.book.note(name, len(records), unknown)
	commit := rng.IntN(10) < 7
	if err := client.BeginTransaction(); err != nil {
		return false
	}
	if commit || rng.IntN(2) == 0 {
		commit = client.ProduceSync(ctx, records...).FirstErr() == nil && commit
	} else { // abort while records are on their way
		for _, r := range records {
			client.Produce(ctx, r, nil)
		}
		pause(ctx, time.Duration(rng.IntN(30))*time.Millisecond)
	}
	return x.end(client, name, len(records), commit)
}

// end ends a transaction and notes how. It goes on when the test's load is told to stop: what was begun is ended.
func (x *tellers) end(client *kgo.Client, name string, records int, commit bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if !commit && client.AbortBufferedRecords(ctx) != nil {
		return false
	}
	if client.EndTransaction(ctx, kgo.TransactionEndTry(commit)) != nil {
		return false
	}
	f := dropped
	if commit {
		f = kept
	}
	x.book.note(name, records, f)
	return true
}

// feed fills a partition of the source with numbers.
func (x *tellers) feed(ctx context.Context, partition int32) {
	client, err := x.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		x.t.Error(err)
		return
	}
	defer client.Close()
	for n := 0; ctx.Err() == nil; n++ {
		record := &kgo.Record{Topic: sourceTopic, Partition: partition, Value: []byte(strconv.Itoa(n))}
		if err := client.ProduceSync(ctx, record).FirstErr(); err != nil && ctx.Err() == nil {
			x.t.Error("feed:", err)
			return
		}
		pause(ctx, 10*time.Millisecond)
	}
}

// copy moves a partition of the source to the sink, a few records and their offset per transaction.
func (x *tellers) copy(ctx context.Context, partition int32, old bool, rng *rand.Rand) {
	for ctx.Err() == nil {
		client, err := x.transactional(fmt.Sprint("copier-", partition), old)
		if err != nil {
			x.t.Error(err)
			return
		}
		for ctx.Err() == nil {
			if err := x.copySome(ctx, client, partition, old, rng); err != nil {
				x.logger.Sugar().Info("copier begins again: ", err)
				break
			}
		}
		client.Close()
	}
}

// copySome is one transaction. An error says that its end is not known; the next one begins where the offset stands.
func (x *tellers) copySome(ctx context.Context, client *kgo.Client, partition int32, old bool, rng *rand.Rand) error {
	if _, _, err := client.ProducerID(ctx); err != nil { // fences its predecessor before the offset is read
		return err
	}
	offset, err := committedOffset(ctx, client, partition)
	if err != nil {
		return err
	}
	records, err := x.readSome(ctx, partition, offset, 1+rng.IntN(5))
	if err != nil || len(records) == 0 {
		return err
	}
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	for _, r := range records {
		out := &kgo.Record{Topic: sinkTopic, Partition: int32(rng.IntN(2)), Value: []byte(fmt.Sprintf("%d/%s", partition, r.Value))}
		if err := client.ProduceSync(ctx, out).FirstErr(); err != nil {
			return err
		}
	}
	next := records[len(records)-1].Offset + 1
	if err := addOffset(ctx, client, fmt.Sprint("copier-", partition), partition, next, old); err != nil {
		return err
	}
	commit := rng.IntN(10) < 8
	ending, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := client.EndTransaction(ending, kgo.TransactionEndTry(commit)); err != nil {
		return err
	}
	if commit {
		x.copied.Store(partition, next)
	}
	return nil
}

// readSome reads up to max records from an offset on, none if nothing comes soon.
func (x *tellers) readSome(ctx context.Context, partition int32, offset int64, limit int) ([]*kgo.Record, error) {
	client, err := x.client(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{sourceTopic: {partition: kgo.NewOffset().At(offset)}}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return client.PollRecords(ctx, limit).Records(), nil
}

// committedOffset is where the copiers' group stands, stable (0 if nowhere).
func committedOffset(ctx context.Context, client *kgo.Client, partition int32) (int64, error) {
	req := kmsg.NewPtrOffsetFetchRequest()
	topic := kmsg.NewOffsetFetchRequestGroupTopic()
	topic.Topic, topic.Partitions = sourceTopic, []int32{partition}
	group := kmsg.NewOffsetFetchRequestGroup()
	group.Group, group.Topics = copiersGroup, append(group.Topics, topic)
	req.Groups, req.RequireStable, req.Group = append(req.Groups, group), true, copiersGroup
	old := kmsg.NewOffsetFetchRequestTopic()
	old.Topic, old.Partitions = sourceTopic, []int32{partition}
	req.Topics = append(req.Topics, old)
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return 0, err
	}
	if len(resp.Groups) == 1 {
		if err := kerr.ErrorForCode(resp.Groups[0].ErrorCode); err != nil {
			return 0, err
		}
		p := resp.Groups[0].Topics[0].Partitions[0]
		return max(p.Offset, 0), kerr.ErrorForCode(p.ErrorCode)
	}
	if len(resp.Topics) == 0 {
		return 0, errors.New("no offset answered")
	}
	return max(resp.Topics[0].Partitions[0].Offset, 0), kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
}

// addOffset commits an offset of the source in the client's transaction.
func addOffset(ctx context.Context, client *kgo.Client, name string, partition int32, offset int64, old bool) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	producer, epoch, err := client.ProducerID(ctx)
	if err != nil {
		return err
	}
	if old {
		add := kmsg.NewPtrAddOffsetsToTxnRequest()
		add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = name, producer, epoch, copiersGroup
		resp, err := add.RequestWith(ctx, client)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		if err != nil {
			return fmt.Errorf("add offsets: %w", err)
		}
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = name, producer, epoch, copiersGroup
	topic := kmsg.NewTxnOffsetCommitRequestTopic()
	topic.Topic = sourceTopic
	p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset = partition, offset
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, client)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("commit offsets: %w", err)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// sample notes the high watermarks of all partitions of the tellers as of one log index, again and again.
func (x *tellers) sample(ctx context.Context) {
	for ; ctx.Err() == nil; pause(ctx, 5*time.Millisecond) {
		current := x.tenure.Load()
		if current == nil {
			continue
		}
		var high []int64
		_, err := current.Read(func(s *metadata.State) {
			topic, ok := s.TopicByName(tellersTopic)
			if !ok {
				return
			}
			for n := range topic.Partitions {
				marks, _ := s.Watermarks(id.TopicPartition{Topic: topic.ID, Partition: n})
				high = append(high, marks.HighWatermark)
			}
		})
		if err == nil && len(high) == tellerParts {
			x.book.mu.Lock()
			x.book.samples = append(x.book.samples, high)
			x.book.mu.Unlock()
		}
	}
}

// stop ends the load and checks everything.
func (x *tellers) stop() {
	x.t.Helper()
	x.cancel()
	x.done.Wait()
	x.settle()
	x.checkTransactions()
	x.checkCopies()
	x.t.Logf("%d transactions committed, %d aborted, %d unknown, %d samples", x.book.count(kept), x.book.count(dropped),
		x.book.count(unknown), len(x.book.samples))
}

// settle ends what crashed or replaced producers left open, as their successors would.
func (x *tellers) settle() {
	x.t.Helper()
	names := map[string]bool{}
	for name := range x.book.fates {
		names[name[:strings.LastIndexByte(name, '-')]] = true
	}
	for p := range sourceParts {
		names[fmt.Sprint("copier-", p)] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		client, err := x.transactional(name, false)
		require.NoError(x.t, err)
		ctx, cancel := context.WithTimeout(x.t.Context(), patience)
		_, _, err = client.ProducerID(ctx)
		cancel()
		require.NoError(x.t, err, name)
		client.Close()
	}
}

// marker is where a transaction ends in a partition.
type marker struct {
	partition int32
	offset    int64
}

// checkTransactions: no record of an aborted transaction is read, none of a committed one is missing or there twice, and
// no transaction is torn: neither in the end nor in any of the moments sampled, at which it had either all its markers
// or none.
func (x *tellers) checkTransactions() {
	x.t.Helper()
	ends := map[string]map[marker]bool{}
	records := map[string]int{}
	seen := map[string]bool{}
	for p := range int32(tellerParts) {
		all, controls := x.committedOf(tellersTopic, p)
		for _, r := range all {
			value := string(r.Value)
			require.False(x.t, seen[value], "%s is there twice", value)
			seen[value] = true
			transaction, _, _ := strings.Cut(value, "/")
			records[transaction]++
			if ends[transaction] == nil {
				ends[transaction] = map[marker]bool{}
			}
			ends[transaction][marker{p, markerOf(r, controls)}] = true
		}
	}
	for transaction, f := range x.book.fates {
		n, size := records[transaction], x.book.sizes[transaction]
		switch f {
		case kept:
			require.Equal(x.t, size, n, "records of %s, which was committed", transaction)
		case dropped:
			require.Zero(x.t, n, "records of %s, which was aborted", transaction)
		default:
			require.True(x.t, n == 0 || n == size, "%s is torn: %d of %d records", transaction, n, size)
		}
	}
	for transaction, markers := range ends {
		for _, high := range x.book.samples {
			written := 0
			for m := range markers {
				if m.offset < high[m.partition] {
					written++
				}
			}
			require.True(x.t, written == 0 || written == len(markers), "%s was torn at %v: %v", transaction, high, markers)
		}
	}
}

// markerOf gives the offset of the marker that ended a record's transaction.
func markerOf(r *kgo.Record, controls []*kgo.Record) int64 {
	for _, c := range controls {
		if c.ProducerID == r.ProducerID && c.Offset > r.Offset {
			return c.Offset
		}
	}
	return -1
}

// checkCopies: the sink has every record of the source up to the committed offset once, and no other.
func (x *tellers) checkCopies() {
	x.t.Helper()
	client := x.pinned(x.agents[0])
	defer client.Close()
	got := map[string]int{}
	for _, r := range x.committed(sinkTopic, 2) {
		got[string(r.Value)]++
	}
	total := 0
	for p := range int32(sourceParts) {
		offset, err := committedOffset(x.t.Context(), client, p)
		require.NoError(x.t, err)
		if known, ok := x.copied.Load(p); ok {
			require.GreaterOrEqual(x.t, offset, known.(int64), "a committed offset was lost")
		}
		source, _ := x.committedOf(sourceTopic, p)
		for _, r := range source {
			if r.Offset < offset {
				total++
				require.Equal(x.t, 1, got[fmt.Sprintf("%d/%s", p, r.Value)], "copies of %s of partition %d", r.Value, p)
			}
		}
	}
	require.Len(x.t, got, total, "copies of what was not committed as read")
	require.NotZero(x.t, total)
}

// committed reads the partitions of a topic as a reader of committed records does, up to the last stable offset as of
// now, each partition from another agent.
func (c *cluster) committed(topic string, partitions int32) (all []*kgo.Record) {
	c.t.Helper()
	for p := range partitions {
		records, _ := c.committedOf(topic, p)
		all = append(all, records...)
	}
	return all
}

// committedOf gives a partition's records and its markers.
func (c *cluster) committedOf(topic string, partition int32) (records, controls []*kgo.Record) {
	c.t.Helper()
	client := c.pinned(c.agents[int(partition)%len(c.agents)],
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().AtStart()}}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
	)
	defer client.Close()
	req := endRequest(topic, partition)
	req.IsolationLevel = 1
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	resp, err := req.RequestWith(ctx, client)
	require.NoError(c.t, err)
	require.Zero(c.t, resp.Topics[0].Partitions[0].ErrorCode)
	end := resp.Topics[0].Partitions[0].Offset
	for at := int64(0); at < end; {
		fetches := client.PollFetches(ctx)
		require.NoError(c.t, fetches.Err0())
		for _, r := range fetches.Records() {
			at = max(at, r.Offset+1)
			if r.Attrs.IsControl() {
				controls = append(controls, r)
			} else {
				records = append(records, r)
			}
		}
	}
	return records, controls
}
