package connlimit

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// from returns the remote address of a connection.
func from(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1} }

// admitted is a limit with named connections.
type admitted struct {
	*Limit
	places map[string]*Place
	mu     sync.Mutex
	closed []string // names and reasons of the places that were lost, in order
}

func admit(cfg Config) *admitted {
	return &admitted{Limit: New(cfg), places: map[string]*Place{}}
}

// connect admits a connection, and reports whether it has a place.
func (a *admitted) connect(name, ip string) bool {
	place := a.Admit(from(ip), func(reason Reason) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.closed = append(a.closed, name+" "+string(reason))
	})
	if place == nil {
		return false
	}
	a.places[name] = place
	return true
}

// end gives all places up, and with them their timers.
func (a *admitted) end(t *testing.T) {
	t.Helper()
	for _, place := range a.places {
		place.Leave()
		place.Leave()
	}
	require.Zero(t, a.Open())
	require.Empty(t, a.Limit.mu.addresses)
	require.Zero(t, a.Limit.mu.fresh.Len())
	require.Zero(t, a.Limit.mu.idle.Len())
}

// TestLimit_OrderOfRefusal: fresh connections before idle ones, those of the address with most of them, the oldest first; and
// none with a request in progress.
func TestLimit_OrderOfRefusal(t *testing.T) {
	a := admit(Config{Max: 7})
	for _, c := range []struct{ name, ip string }{
		{"busy", "10.0.0.1"},
		{"idle 1", "10.0.0.2"},
		{"idle 2", "10.0.0.3"},
		{"idle 3", "10.0.0.3"},
		{"fresh 1", "10.0.0.4"},
		{"fresh 2", "10.0.0.5"},
		{"fresh 3", "10.0.0.5"},
	} {
		require.True(t, a.connect(c.name, c.ip))
	}
	for _, name := range []string{"busy", "idle 1", "idle 3", "idle 2"} {
		require.True(t, a.places[name].Begin())
		if name != "busy" {
			a.places[name].End()
		}
	}
	for i, name := range []string{"a", "b", "c", "d", "e", "f"} {
		require.True(t, a.connect(name, fmt.Sprint("10.0.1.", i)))
		require.True(t, a.places[name].Begin())
	}
	require.Equal(t, []string{"fresh 2 fresh", "fresh 1 fresh", "fresh 3 fresh", "idle 3 idle", "idle 1 idle", "idle 2 idle"}, a.closed)
	require.False(t, a.connect("g", "10.0.0.7"), "each connection has a request in progress")
	require.Len(t, a.closed, 6)
	require.False(t, a.places["idle 2"].Begin(), "it has lost its place")
	a.places["a"].End()
	require.True(t, a.connect("g", "10.0.0.7"))
	require.Equal(t, 7, a.Open())
	require.EqualValues(t, 1, testutil.ToFloat64(a.metrics.refused.WithLabelValues(string(Total))))
	require.EqualValues(t, 3, testutil.ToFloat64(a.metrics.evicted.WithLabelValues(string(Fresh))))
	require.EqualValues(t, 4, testutil.ToFloat64(a.metrics.evicted.WithLabelValues(string(Idle))))
	a.end(t)
}

// TestLimit_RequestsOverlap: a connection is idle once its last request has ended.
func TestLimit_RequestsOverlap(t *testing.T) {
	a := admit(Config{Max: 2})
	require.True(t, a.connect("other", "10.0.0.9"))
	require.True(t, a.places["other"].Begin())
	require.True(t, a.connect("a", "10.0.0.1"))
	require.True(t, a.places["a"].Begin())
	require.True(t, a.places["a"].Begin())
	a.places["a"].End()
	require.False(t, a.connect("b", "10.0.0.2"))
	a.places["a"].End()
	require.True(t, a.connect("b", "10.0.0.2"))
	a.end(t)
}

func TestLimit_MaxPerAddress(t *testing.T) {
	a := admit(Config{Max: 10, MaxPerAddress: 2})
	require.True(t, a.connect("a", "10.0.0.1"))
	require.True(t, a.connect("b", "::ffff:10.0.0.1"))
	require.False(t, a.connect("c", "10.0.0.1"))
	require.True(t, a.connect("d", "10.0.0.2"))
	require.True(t, a.connect("e", "2001:db8::1"))
	require.True(t, a.connect("f", "2001:db8::2"))
	require.False(t, a.connect("g", "2001:db8::3"), "an IPv6 network counts as one address")
	require.True(t, a.connect("h", "2001:db8:0:1::3"))
	require.Empty(t, a.closed)
	a.places["a"].Leave()
	require.True(t, a.connect("c", "10.0.0.1"))
	a.end(t)
}

// TestLimit_FirstRequest: a connection is closed if its first request does not begin in time.
func TestLimit_FirstRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := admit(Config{Max: 10, FirstRequest: time.Second})
		for _, name := range []string{"silent", "arriving", "idle", "gone"} {
			require.True(t, a.connect(name, "10.0.0.1"))
		}
		a.places["arriving"].Arriving()
		require.True(t, a.places["idle"].Begin())
		a.places["idle"].End()
		a.places["gone"].Leave()
		<-time.After(time.Hour)
		synctest.Wait()
		require.Equal(t, []string{"silent no_request"}, a.closed)
		require.False(t, a.places["silent"].Begin())
		require.EqualValues(t, 1, testutil.ToFloat64(a.metrics.evicted.WithLabelValues(string(Silent))))
		a.end(t)
	})
}

// TestLimit_LogsOnceAMinute: a warning names the bound, its setting, the address, and the counts since the last warning.
func TestLimit_LogsOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.WarnLevel)
		a := admit(Config{Server: "kafka", Max: 3, FirstRequest: time.Hour, Setting: "--max-connections", Log: zap.New(core)})
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			require.True(t, a.connect(name, "10.0.0.1"))
		}
		require.Equal(t, 1, logs.Len())
		<-time.After(reportInterval)
		require.True(t, a.connect("g", "10.0.0.2"))
		require.Equal(t, 2, logs.Len())
		line := logs.All()[1].ContextMap()
		delete(line, "connections")
		require.Equal(t, map[string]any{
			"server": "kafka", "reason": "fresh", "bound": int64(3), "address": "10.0.0.1", "connections_of_address": int64(2),
			"closed_fresh": int64(3), "closed_idle": int64(0), "closed_busy": int64(0), "refused": int64(0), "setting": "--max-connections",
		}, line)
		a.end(t)
	})
}

// TestLimit_ManyAtOnce: whatever connections do at once, the bound holds and no connection with a request in progress is closed.
func TestLimit_ManyAtOnce(t *testing.T) {
	const bound = 8
	l := New(Config{Max: bound})
	var wrong atomic.Int32
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for k := range 500 {
				var working, lost atomic.Bool
				place := l.Admit(from("10.0.0."+string(rune('1'+i%5))), func(Reason) {
					lost.Store(true)
					if working.Load() {
						wrong.Add(1)
					}
				})
				if place == nil {
					continue
				}
				for range k % 3 {
					if place.Begin() {
						working.Store(true)
						if l.Open() > bound {
							wrong.Add(1)
						}
						working.Store(false)
						place.End()
					} else if l.Open() > bound {
						wrong.Add(1)
					}
				}
				place.Leave()
			}
		})
	}
	all.Wait()
	require.Zero(t, wrong.Load())
	require.Zero(t, l.Open())
	require.Empty(t, l.mu.addresses)
}

// TestCrowd_FirstIsTheLongest compares a crowd with a search of all lines.
func TestCrowd_FirstIsTheLongest(t *testing.T) {
	var c crowd
	lines := make([]line, 5)
	var order uint64
	for i := range 5000 {
		l := &lines[(i*i+i/7)%len(lines)]
		if i%3 == 2 && l.length > 0 {
			c.remove(l, []*Place{l.front, l.back}[i%2])
		} else {
			order++
			c.pushBack(l, &Place{order: order})
		}
		longest := slices.MaxFunc(lines, func(a, b line) int { return a.length - b.length })
		require.Equal(t, longest.length, c.lines[0].length)
		require.Same(t, c.lines[0].front, c.first())
		for _, other := range c.lines {
			require.NotZero(t, other.length)
			require.False(t, other.length == longest.length && other.front.order < c.first().order)
		}
	}
}

func BenchmarkPlace_BeginEnd(b *testing.B) {
	l := New(Config{Max: 1 << 20})
	var n atomic.Int32
	b.RunParallel(func(pb *testing.PB) {
		p := l.Admit(&net.TCPAddr{IP: net.IPv4(10, 0, 0, byte(n.Add(1)))}, func(Reason) {})
		for pb.Next() {
			p.Begin()
			p.End()
		}
		p.Leave()
	})
}

func BenchmarkLimit_AdmitAtTheBound(b *testing.B) {
	l := New(Config{Max: 20_000})
	for i := range 20_000 {
		l.Admit(&net.TCPAddr{IP: net.IPv4(10, 0, byte(i>>4), byte(i))}, func(Reason) {})
	}
	i := 0
	for b.Loop() {
		i++
		l.Admit(&net.TCPAddr{IP: net.IPv4(10, 1, byte(i>>8), byte(i))}, func(Reason) {})
	}
}

// An address with more than half of the connections, all with a request in progress, leaves room for other addresses, and takes none of theirs.
func TestLimit_BusyConnectionsOfOneAddressLeaveRoom(t *testing.T) {
	a := admit(Config{Max: 10})
	defer a.end(t)
	require.True(t, a.connect("innocent", "10.0.0.1"))
	require.True(t, a.places["innocent"].Begin())
	a.places["innocent"].End()
	for i := range 9 {
		name := fmt.Sprint("busy ", i)
		require.True(t, a.connect(name, "10.0.0.66"))
		require.True(t, a.places[name].Begin())
	}
	require.False(t, a.connect("busy 9", "10.0.0.66"), "10.0.0.1 has one connection")
	require.Empty(t, a.closed)
	require.True(t, a.places["innocent"].Begin())
	for i := range 4 {
		name := fmt.Sprint("other ", i)
		require.True(t, a.connect(name, fmt.Sprint("10.0.1.", i)))
		require.True(t, a.places[name].Begin())
	}
	require.Equal(t, []string{"busy 0 busy", "busy 1 busy", "busy 2 busy", "busy 3 busy"}, a.closed)
	require.False(t, a.connect("one more", "10.0.2.1"), "10.0.0.66 has half of the connections, and each has a request in progress")
}
