package telemetry

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/freshet-io/freshet/internal/clientmetrics"
	"github.com/freshet-io/freshet/internal/metrictest"
	"github.com/freshet-io/freshet/kafkaproto"
)

func TestMetrics_Golden(t *testing.T) {
	r := metrictest.NewRegistry()
	New(Config{Random: rand.Reader, Registerer: r})
	r.Golden(t)
}

// embed is a message field.
func embed(number protowire.Number, parts ...[]byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), bytes.Join(parts, nil))
}

func text(number protowire.Number, s string) []byte { return embed(number, []byte(s)) }

func double(number protowire.Number, v float64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(nil, number, protowire.Fixed64Type), math.Float64bits(v))
}

func varint(number protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.VarintType), v)
}

// data returns metrics data of these metrics.
func data(metrics ...[]byte) []byte {
	var all [][]byte
	for _, m := range metrics {
		all = append(all, embed(2, m))
	}
	return embed(1, embed(1, text(1, "resource")), embed(2, all...))
}

func gauge(name string, v float64, attributes ...string) []byte {
	return bytes.Join([][]byte{text(1, name), embed(5, number(v, attributes...))}, nil)
}

func deltaSum(name string, v float64, attributes ...string) []byte {
	return bytes.Join([][]byte{text(1, name), embed(7, number(v, attributes...), varint(2, aggregationDelta), varint(3, 1))}, nil)
}

func number(v float64, attributes ...string) []byte {
	point := double(4, v)
	for _, a := range attributes {
		name, value, _ := strings.Cut(a, "=")
		point = append(point, embed(7, text(1, name), embed(2, text(1, value)))...)
	}
	return embed(1, point)
}

// world is a Telemetry with its registry, in a bubble.
type world struct {
	*Telemetry
	t        *testing.T
	registry *prometheus.Registry
}

func test(t *testing.T, fn func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := prometheus.NewRegistry()
		w := &world{Telemetry: New(Config{Random: rand.Reader, Registerer: r}), t: t, registry: r}
		w.Subscribe(1, map[string]map[string]string{"s": {"metrics": "org.", "interval.ms": "1000"}})
		fn(w)
	})
}

// shown returns the client metrics as "metric client{attributes} value".
func (w *world) shown() []string {
	w.t.Helper()
	families, err := w.registry.Gather()
	require.NoError(w.t, err)
	var all []string
	for _, f := range families {
		if f.GetName() != "freshet_client_gauge" && f.GetName() != "freshet_client_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			l := map[string]string{}
			for _, p := range m.GetLabel() {
				l[p.GetName()] = p.GetValue()
			}
			all = append(all, fmt.Sprintf("%s %s{%s} %g", l["metric"], l["client_id"], l["attributes"], m.GetGauge().GetValue()+m.GetCounter().GetValue()))
		}
	}
	return all
}

var app = clientmetrics.Client{ClientID: "app"}

func TestTelemetry_AddsUpWhatClientsPush(t *testing.T) {
	test(t, func(w *world) {
		a, err := w.Get(InstanceID{}, app)
		require.NoError(t, err)
		require.Equal(t, []string{"org."}, a.Metrics)
		require.Equal(t, time.Second, a.Interval)
		push := func(metrics ...[]byte) {
			t.Helper()
			require.NoError(t, w.Push(Push{ID: a.ID, Subscription: a.Subscription, Metrics: data(metrics...)}, app))
			time.Sleep(time.Second)
		}
		push(gauge("lag", 5, "topic=t", "partition=1"), deltaSum("sent", 3), gauge("bad", math.NaN()))
		push(gauge("lag", 4, "partition=1", "topic=t"), deltaSum("sent", 2))
		require.Equal(t, []string{"lag app{partition=1,topic=t} 4", "sent app{} 5"}, w.shown())
		time.Sleep(2 * minExpiry)
		require.Empty(t, w.shown(), "a client that is gone")
		require.Zero(t, w.mu.series)
	})
}

func TestTelemetry_Throttles(t *testing.T) {
	test(t, func(w *world) {
		a, err := w.Get(InstanceID{}, app)
		require.NoError(t, err)
		_, err = w.Get(a.ID, app)
		require.ErrorIs(t, err, ErrThrottled)
		push := Push{ID: a.ID, Subscription: a.Subscription}
		time.Sleep(time.Millisecond)
		require.NoError(t, w.Push(push, app), "the first after a get, at any time")
		require.ErrorIs(t, w.Push(push, app), ErrThrottled)
		time.Sleep(time.Second)
		require.NoError(t, w.Push(push, app))
		push.Terminating = true
		require.NoError(t, w.Push(push, app), "the last, at any time")
		time.Sleep(time.Second)
		require.ErrorIs(t, w.Push(push, app), ErrTerminated)
	})
}

func TestTelemetry_ChangedSubscription(t *testing.T) {
	test(t, func(w *world) {
		a, err := w.Get(InstanceID{}, app)
		require.NoError(t, err)
		w.Subscribe(2, map[string]map[string]string{
			"s": {"metrics": "org.", "interval.ms": "1000"}, "all": {"metrics": "*", "match": "client_id=app"}, "other": {"metrics": "x", "match": "client_id=b"},
		})
		require.ErrorIs(t, w.Push(Push{ID: a.ID, Subscription: a.Subscription}, app), ErrUnknownSubscription)
		time.Sleep(time.Second)
		b, err := w.Get(a.ID, app)
		require.NoError(t, err)
		require.Equal(t, []string{"*"}, b.Metrics)
		require.NotEqual(t, a.Subscription, b.Subscription)
	})
}

func TestTelemetry_RefusesBadPushes(t *testing.T) {
	for _, c := range []struct {
		name string
		push Push
		err  error
	}{
		{"no metrics data", Push{Metrics: []byte{0x0a, 0xff}}, ErrInvalid},
		{"not compressed", Push{Compression: kafkaproto.Gzip, Metrics: []byte("x")}, ErrInvalid},
		{"no such codec", Push{Compression: 9}, ErrCompression},
		{"too large", Push{Metrics: make([]byte, MaxBytes+1)}, ErrTooLarge},
		{"a bomb", Push{Compression: kafkaproto.Zstd, Metrics: bomb(t)}, ErrInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			test(t, func(w *world) {
				a, err := w.Get(InstanceID{}, app)
				require.NoError(t, err)
				c.push.ID, c.push.Subscription = a.ID, a.Subscription
				time.Sleep(time.Second)
				require.ErrorIs(t, w.Push(c.push, app), c.err)
			})
		})
	}
	test(t, func(w *world) { require.ErrorIs(t, w.Push(Push{}, app), ErrTerminated, "no id") })
}

// bomb returns a small frame of zstd that inflates beyond maxInflated.
func bomb(t *testing.T) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	return w.EncodeAll(make([]byte, 2*maxInflated), nil)
}

func TestTelemetry_IsBounded(t *testing.T) {
	test(t, func(w *world) {
		a, err := w.Get(InstanceID{}, app)
		require.NoError(t, err)
		var metrics [][]byte
		for i := range maxPoints + 10 {
			metrics = append(metrics, gauge(fmt.Sprint("m", i), 1))
		}
		time.Sleep(time.Second)
		require.NoError(t, w.Push(Push{ID: a.ID, Subscription: a.Subscription, Metrics: data(metrics...)}, app))
		require.Len(t, w.shown(), maxClientSeries)
		for n, want := range map[int]int{maxPoints: maxPoints, maxPoints + 1: maxPoints} {
			points, err := w.read(Push{Metrics: data(metrics[:n]...)})
			require.NoError(t, err)
			require.Len(t, points, want)
		}
		for range maxSeries / maxClientSeries {
			b, err := w.Get(InstanceID{}, app)
			require.NoError(t, err)
			require.NoError(t, w.Push(Push{ID: b.ID, Subscription: b.Subscription, Metrics: data(metrics...)}, app))
		}
		require.Equal(t, maxSeries, w.mu.series, "the last client has none")
		for range maxClients + 5 {
			_, err := w.Get(InstanceID{}, app)
			require.NoError(t, err)
		}
		require.Len(t, w.mu.clients, maxClients)
		require.Empty(t, w.shown(), "the least recently seen clients are forgotten, with their series")
	})
}

// TestTelemetry_LabelsAreBounded pushes a point with as many attributes as are read, and with one more. Values of labels have their maximum length,
// and one byte more.
func TestTelemetry_LabelsAreBounded(t *testing.T) {
	attributes := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("a%02d=v", i))
		}
		return all
	}
	kept := strings.Join(attributes(maxAttributes), ",")
	long := strings.Repeat("m", maxLabel)
	for name, c := range map[string]struct {
		client, metric string
		attributes     []string
		want           string
	}{
		"attributes at the bound":  {"app", "m", attributes(maxAttributes), "m app{" + kept + "} 1"},
		"an attribute more":        {"app", "m", attributes(maxAttributes + 1), "m app{" + kept + "} 1"},
		"labels at the bound":      {long, long, []string{"a=" + long[2:]}, long + " " + long + "{a=" + long[2:] + "} 1"},
		"a byte more":              {long + "c", long + "m", []string{"a=" + long[1:]}, long + " " + long + "{a=" + long[2:] + "} 1"},
		"a character of two bytes": {"app", long[1:] + "é", nil, long[1:] + " app{} 1"},
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func(w *world) {
				about := clientmetrics.Client{ClientID: c.client}
				a, err := w.Get(InstanceID{}, about)
				require.NoError(t, err)
				require.NoError(t, w.Push(Push{ID: a.ID, Subscription: a.Subscription, Metrics: data(gauge(c.metric, 1, c.attributes...))}, about))
				require.Equal(t, []string{c.want}, w.shown())
			})
		})
	}
}

// TestTelemetry_KeepsNoLongNames has 100 clients with IDs of 32 KiB push a metric whose name has 1 MiB. No more than their labels stays in memory.
func TestTelemetry_KeepsNoLongNames(t *testing.T) {
	test(t, func(w *world) {
		before := heap()
		const clients = 100
		for i := range clients {
			about := clientmetrics.Client{ClientID: strings.Repeat("c", 32<<10), SoftwareName: strings.Repeat("s", 32<<10)}
			a, err := w.Get(InstanceID{}, about)
			require.NoError(t, err)
			name := gauge(fmt.Sprint(i, strings.Repeat("m", MaxBytes-1000)), 1)
			require.NoError(t, w.Push(Push{ID: a.ID, Subscription: a.Subscription, Metrics: data(name)}, about))
		}
		require.Equal(t, clients, w.mu.series)
		each := (heap() - before) / clients
		t.Logf("%d bytes a client", each)
		require.Less(t, each, int64(8<<10))
		runtime.KeepAlive(w)
	})
}

// heap returns the bytes of live objects.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func FuzzDecode(f *testing.F) {
	f.Add(data(gauge("lag", 5, "topic=t"), deltaSum("sent", 3)))
	f.Fuzz(func(t *testing.T, p []byte) {
		n := 0
		err := decode(p, func(point) bool { n++; return n < 10 })
		require.LessOrEqual(t, n, 10)
		if err != nil {
			require.ErrorIs(t, err, errMalformed)
		}
	})
}

// Clients with the same subscriptions share one list, also after a change of others. A subscription that stays is not compiled again.
func TestTelemetry_SharesListsOfMetrics(t *testing.T) {
	test(t, func(w *world) {
		configs := map[string]map[string]string{"s": {"metrics": "org.,net."}, "a": {"metrics": "x", "match": "client_id=app"}}
		w.Subscribe(2, configs)
		kept := w.mu.subscriptions[0]
		require.Equal(t, "a", kept.name)
		a, err := w.Get(InstanceID{}, app)
		require.NoError(t, err)
		b, err := w.Get(InstanceID{}, app)
		require.NoError(t, err)
		require.Equal(t, []string{"net.", "org.", "x"}, a.Metrics)
		require.Same(t, &a.Metrics[0], &b.Metrics[0])
		configs["s"] = map[string]string{"metrics": "y"}
		for i := range 100 {
			configs[fmt.Sprint("t", i)] = map[string]string{"metrics": "z"}
		}
		w.Subscribe(3, configs)
		require.Same(t, kept.Subscription, w.mu.subscriptions[0].Subscription)
		require.Len(t, w.mu.subscriptions, clientmetrics.MaxSubscriptions)
		for i := range 2 * maxUnions {
			w.union([]string{fmt.Sprint(i)})
		}
		require.LessOrEqual(t, len(w.mu.unions), maxUnions)
	})
}
