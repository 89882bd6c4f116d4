package telemetry

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"math"
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

// data is metrics data of these metrics.
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

// shown gives the client metrics as "metric client{attributes} value".
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

// bomb is little that becomes much.
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
		for range maxClients + 5 {
			_, err := w.Get(InstanceID{}, app)
			require.NoError(t, err)
		}
		require.Len(t, w.mu.clients, maxClients)
		require.Empty(t, w.shown(), "the client heard of longest ago went, with its series")
	})
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
