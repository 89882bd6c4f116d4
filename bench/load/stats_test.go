package load

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStats_PeriodsAndTotals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStats()
		publish := func(delay, latency time.Duration) {
			intended := time.Now()
			s.Published(100, intended, intended.Add(delay), intended.Add(delay+latency))
		}
		receive := func(latencies ...time.Duration) {
			r := s.Receive()
			defer r.Done()
			for _, l := range latencies {
				r.Message(10, l)
			}
		}
		s.Probed()
		publish(time.Millisecond, 5*time.Millisecond)
		receive(3*time.Millisecond, 0)
		s.PublishFailed(errors.New("first"))
		s.PublishFailed(errors.New("second"))
		<-time.After(2 * time.Second)
		p := s.Snapshot()
		require.Equal(t, Counters{Sent: 2, Failed: 2, BytesSent: 100, Received: 2, BytesReceived: 20}, p.Counters)
		require.Equal(t, p.Counters, p.Totals)
		require.Equal(t, 2*time.Second, p.Elapsed)
		require.Equal(t, "second", p.LastError)
		require.InEpsilon(t, 5000, p.Latencies.Publish.Max(), 1e-3)
		require.EqualValues(t, 1000, p.Latencies.PublishDelay.Max())
		require.EqualValues(t, 1, p.Latencies.EndToEnd.TotalCount(), "a latency that the clock cannot tell is not recorded")

		publish(2*time.Minute, time.Hour)
		receive(48 * time.Hour)
		p = s.Snapshot()
		require.Equal(t, Counters{Sent: 1, BytesSent: 100, Received: 1, BytesReceived: 10}, p.Counters)
		require.Equal(t, Counters{Sent: 3, Failed: 2, BytesSent: 200, Received: 3, BytesReceived: 30}, p.Totals)
		require.Empty(t, p.LastError)
		require.EqualValues(t, 1, p.Latencies.Publish.TotalCount())
		require.InEpsilon(t, longestPublish.Microseconds(), p.Latencies.Publish.Max(), 1e-3, "longer is as long as is told apart")
		require.InEpsilon(t, longestPublish.Microseconds(), p.Latencies.PublishDelay.Max(), 1e-3)
		require.InEpsilon(t, longestEndToEnd.Microseconds(), p.Latencies.EndToEnd.Max(), 1e-3)

		publish(0, 7*time.Millisecond)
		all := s.Cumulative()
		require.EqualValues(t, 3, all.Publish.TotalCount(), "the period under way is part of it")
		require.EqualValues(t, 2, all.EndToEnd.TotalCount())
		s.ResetLatencies()
		require.Zero(t, s.Cumulative().Publish.TotalCount())
		p = s.Snapshot()
		require.Zero(t, p.Latencies.Publish.TotalCount())
		require.EqualValues(t, 1, p.Counters.Sent, "counters go on")
		publish(0, 9*time.Millisecond)
		require.InEpsilon(t, 9000, s.Snapshot().Latencies.Publish.Max(), 1e-3)
		require.InEpsilon(t, 9000, s.Cumulative().Publish.Max(), 1e-3)
	})
}

// Nothing is lost or counted twice between snapshots.
func TestStats_SnapshotsWhileRecording(t *testing.T) {
	s := NewStats()
	const senders, messages = 4, 2000
	var wait sync.WaitGroup
	for range senders {
		wait.Go(func() {
			for range messages {
				now := time.Now()
				s.Published(1, now, now, now)
			}
		})
	}
	done := make(chan struct{})
	go func() {
		wait.Wait()
		close(done)
	}()
	var counted, recorded int64
	for last := false; !last; {
		select {
		case <-done:
			last = true
		default:
		}
		p := s.Snapshot()
		counted += p.Counters.Sent
		recorded += p.Latencies.Publish.TotalCount()
	}
	require.EqualValues(t, senders*messages, counted)
	require.EqualValues(t, senders*messages, recorded)
	require.EqualValues(t, senders*messages, s.Cumulative().PublishDelay.TotalCount())
}

func TestPeriod_MergeOfWorkers(t *testing.T) {
	one, two := NewStats(), NewStats()
	now := time.Now()
	one.Published(10, now, now, now.Add(time.Millisecond))
	two.Published(20, now, now, now.Add(9*time.Millisecond))
	two.FetchFailed(errors.New("fetch"))
	p := one.Snapshot()
	p.Merge(two.Snapshot())
	require.Equal(t, Counters{Sent: 2, BytesSent: 30}, p.Counters)
	require.Equal(t, Counters{Sent: 2, BytesSent: 30}, p.Totals)
	require.Equal(t, "fetch", p.LastError)
	require.EqualValues(t, 2, p.Latencies.Publish.TotalCount())
	require.InEpsilon(t, 9000, p.Latencies.Publish.Max(), 1e-3)
}

func TestLatencies_EncodeAndDecode(t *testing.T) {
	l := NewLatencies()
	for v := int64(1); v < 1e9; v = v*3 + 1 {
		require.NoError(t, l.EndToEnd.RecordValue(v))
	}
	encoded, err := l.Encode()
	require.NoError(t, err)
	back, err := encoded.Decode()
	require.NoError(t, err)
	require.True(t, l.EndToEnd.Equals(back.EndToEnd))
	require.Zero(t, back.Publish.TotalCount())
	_, err = Encoded{Publish: []byte("x")}.Decode()
	require.Error(t, err)
}

func TestCPU_Warning(t *testing.T) {
	require.Empty(t, CPUUse{Share: 0.79}.Warning())
	require.Contains(t, CPUUse{Share: 0.81}.Warning(), "used 81 % of its cores")
	cpu := NewCPU()
	for began := processCPU(); processCPU()-began < 20*time.Millisecond; {
		_ = make([]byte, 1<<16)
	}
	use := cpu.Use()
	require.GreaterOrEqual(t, use.Seconds, 0.02)
	require.Positive(t, use.Share)
}
