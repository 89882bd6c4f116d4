package worker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/goleak"

	"github.com/freshet-io/freshet/bench/javaconfig"
	"github.com/freshet-io/freshet/bench/load"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func setup(t *testing.T) Setup {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return Setup{
		Common:   "bootstrap.servers=" + strings.Join(c.ListenAddrs(), ",") + "\nclient.id=bench-{zone.id}\nmax.block.ms=1\n",
		Producer: "linger.ms=0\n", Consumer: "auto.offset.reset=earliest\nenable.auto.commit=false\nfetch.max.wait.ms=20\n", RecordBytes: 200,
	}
}

// remote gives a worker that answers over HTTP.
func remote(t *testing.T) *Remote {
	t.Helper()
	server := httptest.NewServer(NewServer(NewLocal("zone-b"), io.Discard).Handler())
	t.Cleanup(server.Close)
	r, err := NewRemote(server.URL + "/")
	require.NoError(t, err)
	return r
}

// All kinds of workers carry out the same run, and count the same.
func TestWorker_Contract(t *testing.T) {
	for name, w := range map[string]Worker{
		"local":                 NewLocal("zone-a"),
		"remote":                remote(t),
		"ensemble of one":       NewEnsemble([]Worker{remote(t)}, false),
		"ensemble of two":       NewEnsemble([]Worker{remote(t), remote(t)}, false),
		"ensemble of three":     NewEnsemble(locals(3), false),
		"ensemble of two, more": NewEnsemble(locals(2), true),
	} {
		t.Run(name, func(t *testing.T) {
			carryOut(t, w)
			carryOut(t, w) // a worker can be used again
			require.NoError(t, w.Stop(t.Context()), "twice is once too")
			_, err := w.Counters(t.Context())
			require.ErrorContains(t, err, ErrOrder.Error())
		})
	}
}

func locals(n int) []Worker {
	all := make([]Worker, n)
	for i := range all {
		all[i] = NewLocal("")
	}
	return all
}

func carryOut(t *testing.T, w Worker) {
	t.Helper()
	ctx := t.Context()
	warnings, err := w.Init(ctx, setup(t))
	require.NoError(t, err)
	require.Equal(t, []string{"clients: max.block.ms has no counterpart in this client and is ignored"}, warnings)
	require.NoError(t, w.CreateTopics(ctx, Topics{Topics: []load.Topic{{Name: "a", Partitions: 2}, {Name: "b", Partitions: 1}}, Replication: 1}))
	require.NoError(t, w.CreateConsumers(ctx, []load.Subscription{{Topic: "a", Group: "x"}, {Topic: "a", Group: "x"}, {Topic: "b", Group: "y"}}))
	require.NoError(t, w.CreateProducers(ctx, []string{"a", "a", "b"}))
	require.NoError(t, w.Probe(ctx))
	settled := func() bool {
		c, err := w.Counters(ctx)
		return err == nil && c.Sent == c.Received && c.Sent >= 3
	}
	require.Eventually(t, settled, time.Minute, 10*time.Millisecond)

	require.NoError(t, w.StartLoad(ctx, Load{Rate: 600, Keys: load.RoundRobin, Payload: Payload{Size: 100, Ratio: 0.5, Pool: 3}}))
	sent := func(n int64) {
		t.Helper()
		require.Eventually(t, func() bool { c, err := w.Counters(ctx); return err == nil && c.Sent > n }, time.Minute, 10*time.Millisecond)
	}
	sent(20)
	before, err := w.Counters(ctx)
	require.NoError(t, err)
	require.NoError(t, w.ResetLatencies(ctx))
	after, err := w.Counters(ctx)
	require.NoError(t, err)
	require.NoError(t, w.PauseConsumers(ctx))
	require.NoError(t, w.SetRate(ctx, RateChange{Rate: 1200}))
	sent(after.Sent + 20)
	require.NoError(t, w.ResumeConsumers(ctx))
	require.NoError(t, w.StopLoad(ctx))
	require.Eventually(t, settled, time.Minute, 10*time.Millisecond)

	p, err := w.Period(ctx)
	require.NoError(t, err)
	require.Equal(t, p.Counters, p.Totals, "the first period has all")
	require.Equal(t, (p.Counters.Sent-3)*100, p.Counters.BytesSent)
	require.Equal(t, p.Counters.BytesSent+3*10, p.Counters.BytesReceived)
	require.Positive(t, p.Elapsed)
	require.Positive(t, p.CPU.Seconds)
	total, err := w.Cumulative(ctx)
	require.NoError(t, err)
	require.Equal(t, total.Publish.TotalCount(), total.PublishDelay.TotalCount())
	require.GreaterOrEqual(t, total.Publish.TotalCount(), p.Counters.Sent-after.Sent)
	require.LessOrEqual(t, total.Publish.TotalCount(), p.Counters.Sent-before.Sent, "what came before the reset is not in it")
	require.NoError(t, w.Stop(ctx))
}

func TestWorker_ErrorsOfConfigurationTravel(t *testing.T) {
	for name, w := range map[string]Worker{"local": NewLocal(""), "remote": remote(t)} {
		_, err := w.Init(t.Context(), Setup{Common: "bootstrap.servers=a:1\n", Producer: "linger.ms=x\n", Consumer: "isolation.level=y\n"})
		require.ErrorContains(t, err, "linger.ms=x: allowed is", name)
		require.ErrorContains(t, err, "isolation.level=y: allowed are", name)
		require.ErrorContains(t, w.CreateProducers(t.Context(), []string{"a"}), "there is no run", name)
	}
}

func TestLocal_BootstrapAndZone(t *testing.T) {
	r, err := newRun(Setup{
		Common: "bootstrap.servers=a:1\nclient.id=me-{zone.id}\n", Producer: "bootstrap.servers=b:1\nclient.id=p-{zone.id}\n", Bootstrap: "c:1",
	}, "z9")
	require.NoError(t, err)
	require.NotEmpty(t, r.producer.Options)
	_, err = newRun(Setup{Common: "a=b\n"}, "")
	require.ErrorIs(t, err, javaconfig.ErrProperty)
}

func TestRemote_Failures(t *testing.T) {
	for _, address := range []string{"", "host:80", "ftp://host", "http://"} {
		_, err := NewRemote(address)
		require.ErrorIs(t, err, ErrRemote, address)
	}
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	r, err := NewRemote(server.URL)
	require.NoError(t, err)
	_, err = r.Counters(t.Context())
	require.ErrorIs(t, err, ErrRemote)
	require.ErrorContains(t, err, "status 404")
	r.client.CloseIdleConnections()
	server.Close()
	require.ErrorIs(t, r.Probe(t.Context()), ErrRemote)
}

func TestServer_BadRequests(t *testing.T) {
	handler := NewServer(NewLocal(""), io.Discard).Handler()
	for body, want := range map[string]int{"{": http.StatusBadRequest, `{"rate": "x"}`: http.StatusBadRequest, `{"rate": 1}`: http.StatusInternalServerError} {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, pathRate, strings.NewReader(body)))
		require.Equal(t, want, answer.Code, body)
		require.Contains(t, answer.Body.String(), `"error":`)
	}
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, pathRate, nil))
	require.Equal(t, http.StatusMethodNotAllowed, answer.Code)
}

// A worker whose conductor has died ends the run; one whose conductor lives does not.
func TestServer_OrphanedRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs lockedBuffer
		w := &stops{}
		handler := NewServer(w, &errs).Handler()
		post := func(path string) {
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader("{}")))
			require.Equal(t, http.StatusOK, answer.Code)
		}
		post(pathInit)
		for range 10 {
			<-time.After(orphanedAfter - time.Second)
			post(pathCounters)
		}
		synctest.Wait()
		require.Zero(t, w.count())
		<-time.After(orphanedAfter + time.Second)
		synctest.Wait()
		require.Equal(t, 1, w.count())
		require.Contains(t, errs.String(), "nothing heard for 1m0s")
		require.Contains(t, errs.String(), "the run ended with errors: stopped")
		post(pathInit)
		require.NoError(t, postErr(handler, pathStop))
		<-time.After(2 * orphanedAfter)
		synctest.Wait()
		require.Equal(t, 2, w.count(), "a run that was stopped is not watched any more")
	})
}

func postErr(handler http.Handler, path string) error {
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, strings.NewReader("{}")))
	return nil
}

// stops is a worker that counts how often it was stopped.
type stops struct {
	Worker
	mu sync.Mutex
	n  int
}

func (s *stops) Init(context.Context, Setup) ([]string, error) { return nil, nil }

func (s *stops) Counters(context.Context) (load.Counters, error) { return load.Counters{}, nil }

func (s *stops) Stop(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	return errors.New("stopped")
}

func (s *stops) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

// lockedBuffer is for writers that do not know of each other.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Serve ends with its context, and ends the run that is under way.
func TestServer_Serve(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	local := NewLocal("")
	served := make(chan error, 1)
	go func() { served <- NewServer(local, io.Discard).Serve(ctx, listener) }()
	r, err := NewRemote("http://" + listener.Addr().String())
	require.NoError(t, err)
	_, err = r.Init(t.Context(), setup(t))
	require.NoError(t, err)
	require.NoError(t, r.CreateConsumers(t.Context(), []load.Subscription{{Topic: "none", Group: "g"}}))
	cancel()
	require.NoError(t, <-served)
	_, err = local.Counters(t.Context())
	require.ErrorIs(t, err, ErrOrder)
	require.Error(t, r.Stop(t.Context()))
}
