package kafka

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/cache"
	"github.com/freshet-io/freshet/agent/cache/cachetest"
	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/agent/fetch"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/agent/view/viewtest"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore/mem"
)

// readers is the three reading handlers over an owner and a bucket in memory.
type readers struct {
	owner   *viewtest.Owner
	stream  *viewtest.Session
	bucket  *mem.Bucket
	fetch   *Fetch
	list    *ListOffsets
	epoch   *OffsetForLeaderEpoch
	bundles uint64
	metrics *prometheus.Registry // of the fetcher
}

type readViews struct {
	*view.Catalogue
	*view.Partitions
}

type lateSource struct{ *viewtest.Session }

func newReaders(t testing.TB) *readers {
	t.Helper()
	return readersOf(t, fetch.Config{})
}

// readersOf returns readers whose fetcher has bounds of its own.
func readersOf(t testing.TB, cfg fetch.Config) *readers {
	t.Helper()
	r := &readers{owner: viewtest.NewOwner(), bucket: mem.New(), metrics: prometheus.NewRegistry()}
	r.owner.CreateTopic(id.Topic{1}, "a", 3)
	src := &lateSource{}
	views, err := view.NewPartitions(view.Config{Source: src})
	require.NoError(t, err)
	catalogue := view.NewCatalogue()
	r.stream = r.owner.Open(readViews{catalogue, views})
	src.Session = r.stream
	store, err := cache.New(cache.Config{Bucket: r.bucket, Key: cachetest.Key})
	require.NoError(t, err)
	cfg.Views, cfg.Bytes, cfg.Registerer = views, store, r.metrics
	fetcher, err := fetch.New(cfg)
	require.NoError(t, err)
	sessions, err := fetch.NewSessions(fetch.SessionsConfig{})
	require.NoError(t, err)
	offsets, err := fetch.NewOffsets(fetch.OffsetsConfig{Source: src, Bytes: store})
	require.NoError(t, err)
	r.fetch, err = NewFetch(FetchConfig{Catalogue: catalogue, Source: src, Fetcher: fetcher, Sessions: sessions})
	require.NoError(t, err)
	r.list, err = NewListOffsets(catalogue, src, offsets, nil)
	require.NoError(t, err)
	r.epoch, err = NewOffsetForLeaderEpoch(catalogue, src, offsets)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { r.stream.Run(ctx) })
	running.Go(func() { _ = views.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait(); store.Close() })
	<-catalogue.Ready()
	return r
}

// produce commits one bundle with one batch and gives it as readers see it.
func (r *readers) produce(t testing.TB, partition int32, timestamps ...int64) []byte {
	t.Helper()
	r.bundles++
	b := cachetest.NewBundle(id.Bundle(r.bundles))
	p := b.Add(cachetest.Batch([]byte("value"), timestamps...))
	b.Store(t, r.bucket)
	x := b.Extent(0, p)
	x.Last++
	x = r.owner.Commit(id.TopicPartition{Topic: id.Topic{1}, Partition: partition}, x)[0]
	return cachetest.Patched(p.Raw, x.Base)
}

// passTime lets time go by in the bubble.
func passTime(d time.Duration) { <-time.After(d) }

// ask sends a request through a handler and decodes the reply.
func ask[T kmsg.Response](t *testing.T, ctx context.Context, api API, connection uint64, in kmsg.Request) T {
	t.Helper()
	passTime(time.Millisecond) // of the bubble: requests arrive after the confirmation of earlier ones
	req := &edge.Request{
		Key: in.Key(), Version: in.GetVersion(), Body: in.AppendTo(nil), Arrived: time.Now(),
		Client: &edge.Client{ID: connection, Principal: "User:ANONYMOUS"},
	}
	reply := api.Start(ctx, req)()
	require.False(t, reply.Close)
	body := append(bytes.Clone(reply.Head), bytes.Join(reply.Tail, nil)...)
	if reply.Release != nil {
		reply.Release()
	}
	out := in.ResponseKind()
	require.NoError(t, out.ReadFrom(body))
	return out.(T)
}

func fetchRequest(version int16, maxWait int32, partitions ...kmsg.FetchRequestTopicPartition) *kmsg.FetchRequest {
	in := kmsg.NewPtrFetchRequest()
	in.Version, in.MaxWaitMillis, in.MinBytes = version, maxWait, 1
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = "a", id.Topic{1}
	topic.Partitions = partitions
	if len(partitions) > 0 {
		in.Topics = append(in.Topics, topic)
	}
	return in
}

func fetchPartition(partition int32, offset int64) kmsg.FetchRequestTopicPartition {
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, 1<<20
	return p
}

func TestFetch_EveryVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReaders(t)
		want := r.produce(t, 0, 1, 2)
		entry, _ := kafkaproto.Lookup(r.fetch.Key())
		for version := entry.Served.Min; version <= entry.Served.Max; version++ {
			in := fetchRequest(version, 100, fetchPartition(0, 0), fetchPartition(1, 0), fetchPartition(7, 0))
			in.IsolationLevel = 1
			out := ask[*kmsg.FetchResponse](t, t.Context(), r.fetch, 1, in)
			require.Len(t, out.Topics, 1)
			parts := out.Topics[0].Partitions
			require.Len(t, parts, 3)
			require.Equal(t, want, parts[0].RecordBatches)
			require.Equal(t, int64(2), parts[0].HighWatermark)
			require.Zero(t, parts[1].ErrorCode)
			require.NotNil(t, parts[1].RecordBatches)
			require.Equal(t, kerr.UnknownTopicOrPartition.Code, parts[2].ErrorCode)
			if version >= 11 {
				require.Equal(t, int32(-1), parts[0].PreferredReadReplica)
			}
		}
	})
}

func TestFetch_UnknownTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReaders(t)
		byName := fetchRequest(12, 0, fetchPartition(0, 0))
		byName.Topics[0].Topic = "new"
		byID := fetchRequest(13, 0, fetchPartition(0, 0))
		byID.Topics[0].TopicID = id.Topic{2}
		code := func(in *kmsg.FetchRequest) int16 {
			return ask[*kmsg.FetchResponse](t, t.Context(), r.fetch, 1, in).Topics[0].Partitions[0].ErrorCode
		}
		require.Equal(t, kerr.UnknownTopicOrPartition.Code, code(byName))
		require.Equal(t, kerr.UnknownTopicID.Code, code(byID))

		// A request after the creation of a topic by another agent finds the topic (I4).
		r.stream.Hold()
		r.owner.CreateTopic(id.Topic{2}, "new", 1)
		go func() {
			passTime(50 * time.Millisecond)
			r.stream.Resume()
		}()
		require.Zero(t, code(byName))
		require.Zero(t, code(byID))
		r.stream.Hold()
		byName.Topics[0].Topic = "other"
		require.Equal(t, kerr.NotLeaderForPartition.Code, code(byName), "nothing is known")
		r.stream.Resume()
	})
}

func TestFetch_Followers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReaders(t)
		in := fetchRequest(12, 0, fetchPartition(0, 0))
		in.ReplicaID = 3
		out := ask[*kmsg.FetchResponse](t, t.Context(), r.fetch, 1, in)
		require.Equal(t, kerr.TopicAuthorizationFailed.Code, out.Topics[0].Partitions[0].ErrorCode)
	})
}

func TestFetch_Session(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReaders(t)
		conn, closed := context.WithCancel(t.Context())
		fetch := func(connection uint64, session, epoch int32, partitions ...kmsg.FetchRequestTopicPartition) *kmsg.FetchResponse {
			in := fetchRequest(13, 0, partitions...)
			in.SessionID, in.SessionEpoch = session, epoch
			return ask[*kmsg.FetchResponse](t, conn, r.fetch, connection, in)
		}
		told := func(out *kmsg.FetchResponse) (parts []int32) {
			for _, topic := range out.Topics {
				for _, p := range topic.Partitions {
					parts = append(parts, p.Partition)
				}
			}
			return parts
		}
		full := fetch(1, 0, 0, fetchPartition(0, 0), fetchPartition(1, 0))
		require.Zero(t, full.ErrorCode)
		require.Positive(t, full.SessionID)
		require.Equal(t, []int32{0, 1}, told(full))
		sid := full.SessionID

		require.Empty(t, told(fetch(1, sid, 1)), "nothing is news")
		r.produce(t, 1, 1)
		require.Equal(t, []int32{1}, told(fetch(1, sid, 2)))
		r.produce(t, 0, 1)
		out := fetch(1, sid, 3, fetchPartition(1, 1), fetchPartition(2, 0))
		require.ElementsMatch(t, []int32{0, 2}, told(out))
		require.Equal(t, []int32{1, 2, 0}, partitionsOf(r, sid, 4), "who brought records goes behind the others")

		forget := fetchRequest(13, 0, fetchPartition(0, 1))
		forget.SessionID, forget.SessionEpoch = sid, 5
		gone := kmsg.NewFetchRequestForgottenTopic()
		gone.TopicID, gone.Partitions = id.Topic{1}, []int32{2}
		forget.ForgottenTopics = append(forget.ForgottenTopics, gone)
		require.Empty(t, told(ask[*kmsg.FetchResponse](t, conn, r.fetch, 1, forget)))

		require.Equal(t, kerr.InvalidFetchSessionEpoch.Code, fetch(1, sid, 5).ErrorCode)
		require.Equal(t, kerr.FetchSessionIDNotFound.Code, fetch(2, sid, 6).ErrorCode)
		old := fetchRequest(12, 0)
		old.SessionID, old.SessionEpoch = sid, 6
		require.Equal(t, kerr.FetchSessionTopicIDError.Code, ask[*kmsg.FetchResponse](t, conn, r.fetch, 1, old).ErrorCode)

		require.Zero(t, fetch(1, sid, -1, fetchPartition(0, 1)).SessionID, "the final epoch closes it")
		require.Equal(t, kerr.FetchSessionIDNotFound.Code, fetch(1, sid, 6).ErrorCode)

		sid = fetch(1, 0, 0, fetchPartition(0, 1)).SessionID
		closed()
		synctest.Wait()
		require.Equal(t, kerr.FetchSessionIDNotFound.Code, fetch(1, sid, 1).ErrorCode, "a session ends with its connection")
	})
}

// gauge returns the value of one of the fetcher's gauges.
func (r *readers) gauge(t *testing.T, name string) float64 {
	t.Helper()
	families, err := r.metrics.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

func TestFetch_PlacesEndWithTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReaders(t)
		conn, closed := context.WithCancel(t.Context())
		like := cachetest.Batch([]byte("value"), 1)
		exts := cachetest.Compact(t, r.bucket, 1, 16<<20, cachetest.Section{
			Partition: id.TopicPartition{Topic: id.Topic{1}}, Batches: [][]byte{cachetest.Stamped(like, 0), cachetest.Stamped(like, 1)},
		})
		r.owner.Append(id.TopicPartition{Topic: id.Topic{1}}, exts[0]...)
		out := ask[*kmsg.FetchResponse](t, conn, r.fetch, 1, fetchRequest(13, 500, fetchPartition(0, 0)))
		require.NotEmpty(t, out.Topics[0].Partitions[0].RecordBatches)
		require.EqualValues(t, 1, r.gauge(t, "freshet_fetch_places"))
		closed()
		synctest.Wait()
		require.Zero(t, r.gauge(t, "freshet_fetch_places"))
	})
}

func TestFetch_MaxWaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReaders(t)
		began := time.Now()
		out := ask[*kmsg.FetchResponse](t, t.Context(), r.fetch, 1, fetchRequest(13, math.MaxInt32, fetchPartition(0, 0)))
		require.Zero(t, out.Topics[0].Partitions[0].ErrorCode)
		require.InDelta(t, maxWait.Seconds(), time.Since(began).Seconds(), 0.1)
	})
}

// parkFetch starts a fetch that waits, and returns its answer.
func parkFetch(t *testing.T, r *readers, connection uint64, in *kmsg.FetchRequest) <-chan *kmsg.FetchResponse {
	t.Helper()
	done := make(chan *kmsg.FetchResponse, 1)
	go func() { done <- ask[*kmsg.FetchResponse](t, t.Context(), r.fetch, connection, in) }()
	passTime(10 * time.Millisecond)
	return done
}

// TestFetch_BeyondTheMemoryOfWaiting: fetches beyond the bound are answered at once, without errors.
func TestFetch_BeyondTheMemoryOfWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := fetchRequest(13, 60_000, fetchPartition(0, 0))
		one.SessionEpoch = -1
		cost := requestBytes(one, len(one.AppendTo(nil)))
		r := readersOf(t, fetch.Config{RequestBytes: 3 * cost * 4 / 3})
		var parked []<-chan *kmsg.FetchResponse
		for n := range uint64(3) {
			parked = append(parked, parkFetch(t, r, n, one))
		}
		require.EqualValues(t, 3*cost, r.gauge(t, "freshet_fetch_request_bytes"), "at the bound")
		began := time.Now()
		for n := range uint64(5) {
			out := ask[*kmsg.FetchResponse](t, t.Context(), r.fetch, 10+n, one)
			require.Zero(t, out.ErrorCode)
			require.Zero(t, out.Topics[0].Partitions[0].ErrorCode)
			require.EqualValues(t, 100, out.ThrottleMillis, "so that the client does not come back at once")
		}
		require.Less(t, time.Since(began), time.Second)
		var crowd []<-chan *kmsg.FetchResponse
		for n := range uint64(50) { // in turns
			crowd = append(crowd, parkFetch(t, r, 100+n, one))
		}
		for _, done := range crowd {
			require.Zero(t, (<-done).Topics[0].Partitions[0].ErrorCode)
		}
		require.Less(t, time.Since(began), 5*time.Second)

		want := r.produce(t, 0, 1)
		for _, done := range parked {
			require.Equal(t, want, (<-done).Topics[0].Partitions[0].RecordBatches, "fetches that wait are not disturbed")
		}
		require.Zero(t, r.gauge(t, "freshet_fetch_request_bytes"))
		parked = parked[:0]
		waits := fetchRequest(13, 60_000, fetchPartition(0, 1))
		waits.SessionEpoch = -1
		for n := range uint64(3) {
			parked = append(parked, parkFetch(t, r, n, waits))
		}
		out := ask[*kmsg.FetchResponse](t, t.Context(), r.fetch, 10, one)
		require.Equal(t, want, out.Topics[0].Partitions[0].RecordBatches)
		require.Zero(t, out.ThrottleMillis, "it has records")
		for _, done := range parked {
			require.Zero(t, (<-done).ThrottleMillis)
		}
	})
}

// TestFetch_SessionIsChargedWhileItWaits: the request names no partition, and the fetch has those of its session.
func TestFetch_SessionIsChargedWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := readersOf(t, fetch.Config{RequestBytes: 8 << 10})
		open := fetchRequest(13, 0, fetchPartition(0, 0), fetchPartition(1, 0), fetchPartition(2, 0))
		open.SessionEpoch = 0
		sid := ask[*kmsg.FetchResponse](t, t.Context(), r.fetch, 1, open).SessionID
		require.NotZero(t, sid)
		next := fetchRequest(13, 60_000)
		next.SessionID, next.SessionEpoch = sid, 1
		done := parkFetch(t, r, 1, next)
		require.EqualValues(t, fetch.BaseBytes+3*fetch.PartitionBytes, r.gauge(t, "freshet_fetch_request_bytes"))
		r.produce(t, 0, 1)
		require.Zero(t, (<-done).ThrottleMillis)

		var many []kmsg.FetchRequestTopicPartition
		for n := range int32(20) {
			many = append(many, fetchPartition(n, 1))
		}
		next = fetchRequest(13, 60_000, many...)
		next.SessionID, next.SessionEpoch = sid, 2
		ask[*kmsg.FetchResponse](t, t.Context(), r.fetch, 1, next)
		next = fetchRequest(13, 60_000)
		next.SessionID, next.SessionEpoch, next.MinBytes = sid, 3, 1<<20
		began := time.Now()
		out := ask[*kmsg.FetchResponse](t, t.Context(), r.fetch, 1, next)
		require.Less(t, time.Since(began), time.Second, "too large to wait")
		require.Zero(t, out.ErrorCode)
	})
}

// TestRequestBytes compares the estimates with the structs that they stand for.
func TestRequestBytes(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(kmsg.FetchRequestTopic{}), uintptr(topicBytes))
	require.LessOrEqual(t, unsafe.Sizeof(kmsg.FetchRequestForgottenTopic{}), uintptr(topicBytes))
	require.LessOrEqual(t, unsafe.Sizeof(kmsg.FetchRequestTopicPartition{}), uintptr(partitionBytes))
	waiting := unsafe.Sizeof(fetch.Tracked{}) + unsafe.Sizeof(fetch.Partition{}) + unsafe.Sizeof(view.Want{}) + unsafe.Sizeof(view.Plan{}) +
		unsafe.Sizeof(fetch.Result{}) + 8*unsafe.Sizeof(uintptr(0))
	require.LessOrEqual(t, waiting, uintptr(fetch.PartitionBytes))

	in := fetchRequest(13, 0, fetchPartition(0, 0), fetchPartition(1, 0))
	in.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Partitions: []int32{1, 2, 3}}}
	plain := requestBytes(in, 0)
	require.EqualValues(t, fetch.BaseBytes+2*topicBytes+5*partitionBytes+2*fetch.PartitionBytes, plain)
	in.Topics[0].Partitions[0].UnknownTags.Set(9, []byte("x"))
	require.EqualValues(t, plain+tagsBytes+tagBytes, requestBytes(in, 0))
}

// partitionsOf is the order in which a session is read.
func partitionsOf(r *readers, sid, epoch int32) (out []int32) {
	s, err := r.fetch.cfg.Sessions.Get(sid, epoch, fetch.Holder{Connection: 1, Principal: "User:ANONYMOUS"}, true)
	if err != nil {
		return nil
	}
	for _, t := range s.Partitions() {
		out = append(out, t.Key.Partition)
	}
	return out
}

func TestFetch_Malformed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReaders(t)
		in := fetchRequest(12, 0)
		in.IsolationLevel = 9
		for _, body := range [][]byte{{1, 2}, in.AppendTo(nil)} {
			reply := r.fetch.Start(t.Context(), &edge.Request{Key: 1, Version: 12, Body: body, Client: &edge.Client{}})()
			require.True(t, reply.Close)
		}
	})
}

func TestListOffsets_EveryVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReaders(t)
		r.produce(t, 0, 100, 300, 200)
		entry, _ := kafkaproto.Lookup(r.list.Key())
		for version := entry.Served.Min; version <= entry.Served.Max; version++ {
			in := kmsg.NewPtrListOffsetsRequest()
			in.Version = version
			topic := kmsg.NewListOffsetsRequestTopic()
			topic.Topic = "a"
			topic.Partitions = []kmsg.ListOffsetsRequestTopicPartition{{Partition: 0, Timestamp: 150}}
			unknown := kmsg.NewListOffsetsRequestTopic()
			unknown.Topic = "none"
			unknown.Partitions = []kmsg.ListOffsetsRequestTopicPartition{{Partition: 0, Timestamp: -1}}
			in.Topics = append(in.Topics, topic, unknown)
			out := ask[*kmsg.ListOffsetsResponse](t, t.Context(), r.list, 1, in)
			p := out.Topics[0].Partitions[0]
			require.Zero(t, p.ErrorCode)
			require.Equal(t, int64(1), p.Offset)
			require.Equal(t, int64(300), p.Timestamp)
			if version >= 4 {
				require.Equal(t, kafkaproto.LogEpoch, p.LeaderEpoch)
			}
			require.Equal(t, kerr.UnknownTopicOrPartition.Code, out.Topics[1].Partitions[0].ErrorCode)
			for ts, least := range map[int64]int16{-1: 1, -2: 1, -3: 7, -4: 8, -5: 9, -6: 11, -7: 99} {
				in.Topics = in.Topics[:1]
				in.Topics[0].Partitions[0].Timestamp = ts
				out = ask[*kmsg.ListOffsetsResponse](t, t.Context(), r.list, 1, in)
				if version < least {
					require.Equal(t, kerr.UnsupportedVersion.Code, out.Topics[0].Partitions[0].ErrorCode, "%d in %d", ts, version)
				} else {
					require.Zero(t, out.Topics[0].Partitions[0].ErrorCode, "%d in %d", ts, version)
				}
			}
		}
	})
}

func TestListOffsets_TwiceTheSamePartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReaders(t)
		in := kmsg.NewPtrListOffsetsRequest()
		in.Version = 5
		topic := kmsg.NewListOffsetsRequestTopic()
		topic.Topic = "a"
		topic.Partitions = []kmsg.ListOffsetsRequestTopicPartition{{Partition: 0, Timestamp: -1}, {Partition: 0, Timestamp: -2}, {Partition: 1, Timestamp: -1}}
		in.Topics = append(in.Topics, topic)
		out := ask[*kmsg.ListOffsetsResponse](t, t.Context(), r.list, 1, in)
		require.Equal(t, kerr.InvalidRequest.Code, out.Topics[0].Partitions[0].ErrorCode)
		require.Equal(t, kerr.InvalidRequest.Code, out.Topics[0].Partitions[1].ErrorCode)
		require.Zero(t, out.Topics[0].Partitions[2].ErrorCode)
	})
}

func TestListOffsets_Timeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReaders(t)
		r.stream.Hold()
		in := kmsg.NewPtrListOffsetsRequest()
		in.Version, in.TimeoutMillis = 10, 200
		topic := kmsg.NewListOffsetsRequestTopic()
		topic.Topic = "a"
		topic.Partitions = []kmsg.ListOffsetsRequestTopicPartition{{Partition: 0, Timestamp: -1}}
		in.Topics = append(in.Topics, topic)
		began := time.Now()
		out := ask[*kmsg.ListOffsetsResponse](t, t.Context(), r.list, 1, in)
		require.Equal(t, 201*time.Millisecond, time.Since(began))
		require.Equal(t, kerr.NotLeaderForPartition.Code, out.Topics[0].Partitions[0].ErrorCode)
		r.stream.Resume()
	})
}

func TestOffsetForLeaderEpoch_NeverTruncates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReaders(t)
		r.produce(t, 0, 1, 2, 3)
		entry, _ := kafkaproto.Lookup(r.epoch.Key())
		for version := entry.Served.Min; version <= entry.Served.Max; version++ {
			in := kmsg.NewPtrOffsetForLeaderEpochRequest()
			in.Version = version
			topic := kmsg.NewOffsetForLeaderEpochRequestTopic()
			topic.Topic = "a"
			for p, epoch := range []int32{5, 0} {
				q := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
				q.Partition, q.LeaderEpoch, q.CurrentLeaderEpoch = int32(p), epoch, 99
				topic.Partitions = append(topic.Partitions, q)
			}
			none := topic
			none.Topic = "none"
			in.Topics = append(in.Topics, topic, none)
			out := ask[*kmsg.OffsetForLeaderEpochResponse](t, t.Context(), r.epoch, 1, in)
			require.Equal(t, int32(5), out.Topics[0].Partitions[0].LeaderEpoch)
			require.Equal(t, int64(3), out.Topics[0].Partitions[0].EndOffset)
			require.Equal(t, int32(0), out.Topics[0].Partitions[1].LeaderEpoch)
			require.Equal(t, int64(0), out.Topics[0].Partitions[1].EndOffset)
			require.Equal(t, kerr.UnknownTopicOrPartition.Code, out.Topics[1].Partitions[0].ErrorCode)
			require.Equal(t, int64(-1), out.Topics[1].Partitions[0].EndOffset)
		}
	})
}

// BenchmarkFetch measures a fetch of records in memory, from the request's bytes to the reply.
func BenchmarkFetch(b *testing.B) {
	for _, partitions := range []int32{1, 100} {
		b.Run(fmt.Sprintf("partitions=%d", partitions), func(b *testing.B) {
			r := newReaders(b)
			r.owner.CreateTopic(id.Topic{9}, "wide", partitions)
			r.produce(b, 0, 1, 2)
			in := fetchRequest(13, 0, fetchPartition(0, 0))
			wide := kmsg.NewFetchRequestTopic()
			wide.TopicID = id.Topic{9}
			for p := range partitions {
				wide.Partitions = append(wide.Partitions, fetchPartition(p, 0))
			}
			in.Topics = append(in.Topics, wide)
			body, client := in.AppendTo(nil), &edge.Client{ID: 1, Principal: "User:ANONYMOUS"}
			b.ReportAllocs()
			for b.Loop() {
				req := &edge.Request{Key: in.Key(), Version: in.Version, Body: body, Arrived: time.Now(), Client: client}
				reply := r.fetch.Start(b.Context(), req)()
				if len(reply.Tail) == 0 || reply.Close {
					b.Fatal("no records")
				}
				reply.Release()
			}
		})
	}
}
