package kafka

import (
	"bytes"
	"context"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/kafkaproto"
)

// anyRequest gives a request of an API that asks about one of everything.
func anyRequest(key int16) kmsg.Request {
	in := kmsg.RequestForKey(key)
	oneOfEach(reflect.ValueOf(in).Elem())
	return in
}

func oneOfEach(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if _, tags := v.Addr().Interface().(*kmsg.Tags); tags {
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				oneOfEach(v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		oneOfEach(v.Index(0))
	case reflect.String:
		v.SetString("x")
	default:
	}
}

// withoutErrors are the versions of APIs that have no place for an error.
var withoutErrors = map[int16]kafkaproto.Versions{
	int16(kmsg.DescribeLogDirs): {Min: 1, Max: 2},
}

// TestForward_Unavailable: every forwarded API in every version answers its retriable error within the client's time
// when the control plane is away.
func TestForward_Unavailable(t *testing.T) {
	for _, e := range kafkaproto.Table() {
		if e.By != kafkaproto.ByControlPlane {
			continue
		}
		for version := e.Served.Min; version <= e.Served.Max; version++ {
			synctest.Test(t, func(t *testing.T) {
				to := forwarderFunc(func(ctx context.Context, _ client.Forward) ([]byte, error) {
					<-ctx.Done()
					return nil, client.ErrUnavailable
				})
				cfg := Config{Forwarder: to, Prober: proberFunc(func(context.Context) (uint64, error) { return 1, nil })}
				cfg.ApplyDefaults()
				began := time.Now()
				out := call[kmsg.Response](t, newForwarded(e.Key, cfg), version, anyRequest(e.Key), "")
				require.Equal(t, forwardTimeout, time.Since(began))
				codes := errorCodes(out)
				if versions, ok := withoutErrors[e.Key]; ok && versions.Has(version) {
					require.Empty(t, codes, "%s version %d", e.Name, version)
					return
				}
				require.NotEmpty(t, codes, "%s version %d", e.Name, version)
				for _, code := range codes {
					err := kerr.TypedErrorForCode(code)
					require.True(t, err.Retriable, "%s version %d: %v", e.Name, version, err)
				}
			})
		}
	}
}

func TestForward_PassesBytesAndOrigin(t *testing.T) {
	var got client.Forward
	to := forwarderFunc(func(_ context.Context, f client.Forward) ([]byte, error) {
		got = f
		got.Body = append([]byte(nil), f.Body...)
		return []byte("answer"), nil
	})
	cfg := Config{Forwarder: to, Zones: zonesOf(t, "here")}
	cfg.ApplyDefaults()
	in := kmsg.NewPtrDescribeClusterRequest()
	reply := start(t, newForwarded(in.Key(), cfg), 1, in, "me")()
	require.Equal(t, edge.Reply{Head: []byte("answer")}, reply)
	require.Equal(t, client.Forward{
		Key: in.Key(), Version: 1, Body: in.AppendTo(nil), Principal: "User:ANONYMOUS", ClientID: "me", Host: "10.0.0.1",
		Listener: "main", Node: 1, Zone: "here", Connection: 5,
	}, got)
}

// TestForward_CutsTrailingBytes checks that the control plane gets the request without the bytes after its last field.
func TestForward_CutsTrailingBytes(t *testing.T) {
	var got []byte
	to := forwarderFunc(func(_ context.Context, f client.Forward) ([]byte, error) {
		got = bytes.Clone(f.Body)
		return nil, nil
	})
	for _, e := range kafkaproto.Table() {
		if e.By != kafkaproto.ByControlPlane {
			continue
		}
		cfg := Config{Forwarder: to, Prober: proberFunc(func(context.Context) (uint64, error) { return 1, nil })}
		cfg.ApplyDefaults()
		for version := e.Served.Min; version <= e.Served.Max; version++ {
			in := anyRequest(e.Key)
			in.SetVersion(version)
			body := in.AppendTo(nil)
			req := &edge.Request{
				Key: e.Key, Version: version, Body: append(body[:len(body):len(body)], 0, 1, 2), Client: new(edge.Client), Arrived: time.Now(),
			}
			newForwarded(e.Key, cfg).Start(t.Context(), req)()
			require.True(t, bytes.Equal(body, got), "%s version %d", e.Name, version)
		}
	}
}

func TestForward_MalformedClosesTheConnection(t *testing.T) {
	calls := 0
	to := forwarderFunc(func(context.Context, client.Forward) ([]byte, error) { calls++; return nil, client.ErrInvalid })
	cfg := Config{Forwarder: to}
	cfg.ApplyDefaults()
	f := newForwarded(int16(kmsg.CreateTopics), cfg)
	reply := f.Start(t.Context(), &edge.Request{Key: f.key, Version: 5, Body: []byte{0xff}, Client: &edge.Client{}})()
	require.True(t, reply.Close)
	require.Zero(t, calls, "not passed on")
	reply = start(t, f, 5, kmsg.NewPtrCreateTopicsRequest(), "")()
	require.True(t, reply.Close, "refused by the owner")
}

// TestForward_StampsTheFirstTransactionProtocol: its requests say how new they are, by a stamp asked for after they
// came, and are not passed on without; those of the second one and of other APIs ask nobody.
func TestForward_StampsTheFirstTransactionProtocol(t *testing.T) {
	for key, last := range map[kmsg.Key]int16{kmsg.AddPartitionsToTxn: 3, kmsg.AddOffsetsToTxn: 4, kmsg.EndTxn: 4, kmsg.DescribeCluster: -1} {
		entry, _ := kafkaproto.Lookup(int16(key))
		for version := entry.Served.Min; version <= entry.Served.Max; version++ {
			synctest.Test(t, func(t *testing.T) {
				var got []client.Forward
				asked := 0
				fresh := func(context.Context) (uint64, error) { asked++; return 77, nil }
				cfg := Config{
					Forwarder: forwarderFunc(func(_ context.Context, f client.Forward) ([]byte, error) {
						got = append(got, f)
						return nil, client.ErrUnavailable
					}),
					Prober: proberFunc(func(ctx context.Context) (uint64, error) { return fresh(ctx) }),
				}
				cfg.ApplyDefaults()
				ask := func() kmsg.Response {
					return call[kmsg.Response](t, newForwarded(int16(key), cfg), version, anyRequest(int16(key)), "")
				}
				ask()
				if version > last {
					require.Zero(t, asked)
					require.Zero(t, got[0].AsOf)
					return
				}
				require.Equal(t, 1, asked)
				require.EqualValues(t, 77, got[0].AsOf)
				fresh = func(ctx context.Context) (uint64, error) { <-ctx.Done(); return 99, nil }
				began := time.Now()
				require.True(t, kerr.TypedErrorForCode(errorCodes(ask())[0]).Retriable)
				require.Equal(t, stampTimeout, time.Since(began))
				require.Len(t, got, 1, "not passed on without a stamp")
			})
		}
	}
}
