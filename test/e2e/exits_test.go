package e2e

import (
	"context"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/metadata/metalog/etcdlog"
	"github.com/freshet-io/freshet/objstore/marker"
	bucketopen "github.com/freshet-io/freshet/objstore/open"
	"github.com/freshet-io/freshet/test/harness"
)

const (
	// exitLimit bounds the time until a process that must not start has ended.
	exitLimit = 15 * time.Second
	// refusalLimit bounds it where the process tries again for 30 s first.
	refusalLimit = 45 * time.Second
)

// ignoredVariables is the warning about variables of the tests, such as FRESHET_BINARY, which processes inherit.
var ignoredVariables = regexp.MustCompile(`(?m)^freshet: ignored environment variables .*\n`)

// exitLine waits until a launched process has failed by itself, and returns the one line that says why, without the program's name.
func exitLine(t *testing.T, p *testservers.Process, limit time.Duration) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	require.ErrorContains(t, p.Await(ctx), "ended with exit code 1:")
	output := ignoredVariables.ReplaceAllString(p.Output(), "")
	require.NotContains(t, output, "goroutine ", "a stack trace")
	const program = "\nfreshet: "
	require.Equal(t, 1, strings.Count(output, program), "%s", output)
	_, line, _ := strings.Cut(output, program)
	line, rest, _ := strings.Cut(line, "\n")
	require.Empty(t, rest, "the line is the last one")
	t.Log(line)
	return line
}

// producer sends records to an agent, one after the other, until it is stopped.
type producer struct {
	stop         context.CancelFunc
	done         sync.WaitGroup
	acknowledged int
}

// produceTo starts a producer of topic t, whether the agent runs or not. An agent without others in its zone writes to its own bucket.
func produceTo(t *testing.T, a *harness.Agent) *producer {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	p := &producer{stop: cancel}
	p.done.Go(func() {
		for ctx.Err() == nil {
			p.produce(ctx, a.Bootstrap)
		}
	})
	t.Cleanup(cancel)
	return p
}

func (p *producer) produce(ctx context.Context, address string) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	agent, err := harness.Dial(address)
	if err != nil {
		return
	}
	defer agent.Close()
	if _, err := agent.Produce(ctx, "t", 0, "record"); err == nil {
		p.acknowledged++
	}
}

// requireNone stops the producer and fails the test if a record was acknowledged.
func (p *producer) requireNone(t *testing.T) {
	t.Helper()
	p.stop()
	p.done.Wait()
	require.Zero(t, p.acknowledged, "records acknowledged")
}

// TestExit_WrongBucket: an agent, and a control plane, whose bucket is not the cluster's ends with one line before it has stored a
// record.
func TestExit_WrongBucket(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, harness.ClusterConfig{Agents: 1, ControlPlanes: 1})
	harness.CLI(t, c.Bootstrap(), nil, "topic", "create", "t")
	harness.CLI(t, c.Bootstrap(), strings.NewReader("a\n"), "produce", "t")
	mark(t, c.S3.URL("bucket", "other"), marker.Marker{ClusterID: "another-id"})
	mark(t, c.S3.URL("bucket", "moved"), marker.Marker{ClusterID: "another-id", MovedTo: "s3://new/place"})

	for prefix, says := range map[string]string{
		"empty": `^--bucket s3://bucket/empty\S+ has no object clusters/main, but the control plane has cluster id \S+ .*: set --bucket to that of the virtual cluster's records$`,
		"other": `^--bucket s3://bucket/other\S+ holds virtual cluster "main" with cluster id another-id, but .*: set --bucket to that of the virtual cluster's records$`,
		"moved": `^--bucket s3://bucket/moved\S+: virtual cluster "main" was moved to s3://new/place: set --bucket to that$`,
	} {
		t.Run("agent with prefix "+prefix, func(t *testing.T) {
			a := c.NewAgentWith(t, "agent-"+prefix, "--zone", "b", "--bucket", c.S3.URL("bucket", prefix))
			p := produceTo(t, a)
			a.Launch()
			require.Regexp(t, says, exitLine(t, a.Process, exitLimit))
			p.requireNone(t)
			requireNoBundles(t, c.S3, prefix)
		})
	}

	_, err := c.ControlPlanes[0].Terminate(time.Minute) // only an owner misses objects that the metadata refers to
	require.NoError(t, err)
	const remedy = `: set --bucket, --etcd and --etcd-prefix to those of one cluster$`
	for name, test := range map[string]struct{ prefix, etcd, says string }{
		"an empty prefix":          {"empty", etcdlog.DefaultPrefix, `has no object \S+/bundles/\S+, which etcd under --etcd-prefix /freshet/v1 refers to`},
		"another cluster's prefix": {"other", etcdlog.DefaultPrefix, `holds virtual cluster "main" with cluster id another-id, but etcd`},
		"a moved cluster's prefix": {"moved", etcdlog.DefaultPrefix, `virtual cluster "main" was moved to s3://new/place: set --bucket to that$`},
		"another etcd prefix":      {"freshet", "/another", `holds virtual cluster "main" .* etcd under --etcd-prefix /another has no cluster of that name`},
	} {
		t.Run("control plane with "+name, func(t *testing.T) {
			p := c.NewControlPlaneWith(t, "controlplane-"+strings.ReplaceAll(name, " ", "-"),
				"--bucket", c.S3.URL("bucket", test.prefix), "--etcd-prefix", test.etcd)
			p.Launch()
			line := exitLine(t, p.Process, exitLimit)
			require.Regexp(t, `^--bucket s3://bucket/`+test.prefix, line)
			require.Regexp(t, test.says, line)
			if !strings.HasSuffix(test.says, "$") {
				require.Regexp(t, remedy, line)
			}
		})
	}
}

// TestExit_TwoBucketsOfAgents: control planes reach no bucket of records. Of two agents with new buckets, one serves, and the other ends. Later,
// only an agent whose bucket has the records can serve, with or without the marker.
func TestExit_TwoBucketsOfAgents(t *testing.T) {
	t.Parallel()
	c := harness.NewCluster(t, harness.ClusterConfig{Agents: 1, ControlPlanes: 1, StateBucket: true})
	c.ControlPlanes[0].Restart()
	prefixes := []string{"freshet", "other"}
	agents := []*harness.Agent{c.Agents[0], c.NewAgentWith(t, "agent-other", "--zone", "b", "--bucket", c.S3.URL("bucket", "other"))}
	for _, a := range agents {
		a.Launch()
	}
	wins := 0
	require.Eventually(t, func() bool {
		for i, a := range agents {
			if a.Connected() {
				wins = i
				return true
			}
		}
		return false
	}, exitLimit, 20*time.Millisecond)
	winner, loser := agents[wins], agents[1-wins]
	require.Regexp(t, `^--bucket s3://bucket/`+prefixes[1-wins]+`\S+ has no object clusters/main, but the control plane has cluster id \S+ .*: set --bucket to that of the virtual cluster's records$`,
		exitLine(t, loser.Process, exitLimit))
	harness.CLI(t, winner.Bootstrap, nil, "topic", "create", "t")
	harness.CLI(t, winner.Bootstrap, strings.NewReader("a\n"), "produce", "t")
	requireNoBundles(t, c.S3, prefixes[1-wins])

	bucket, err := bucketopen.Bucket(t.Context(), c.S3.URL("bucket", prefixes[wins]))
	require.NoError(t, err)
	defer bucket.Close()
	require.NoError(t, bucket.Delete(t.Context(), []string{marker.Key("main")}))
	second := c.NewAgentWith(t, "agent-second", "--zone", "b", "--bucket", c.S3.URL("bucket", prefixes[wins]))
	second.Launch()
	second.AwaitReady()
	for _, a := range []*harness.Agent{second, winner} {
		_, err := a.Terminate(time.Minute)
		require.NoError(t, err)
	}
	require.NoError(t, bucket.Delete(t.Context(), []string{marker.Key("main")}))
	again := c.NewAgentWith(t, "agent-again", "--zone", "b", "--bucket", c.S3.URL("bucket", prefixes[1-wins]))
	again.Launch()
	require.Regexp(t, `^--bucket s3://bucket/`+prefixes[1-wins]+`\S+ has no object \S+/bundles/\S+, which the control plane refers to for virtual cluster "main": set --bucket to that`,
		exitLine(t, again.Process, exitLimit))
	restarted := c.NewAgentWith(t, "agent-restarted", "--zone", "b", "--bucket", c.S3.URL("bucket", prefixes[wins]))
	restarted.Launch()
	restarted.AwaitReady()
	require.Equal(t, "a\n", harness.CLI(t, restarted.Bootstrap, nil, "consume", "t", "--from", "earliest", "-e"))
}

// TestExit_FromOneBucketToTwo: control planes get a bucket of their own, whose marker has the cluster id alone, as that of the records has. The
// agent that serves goes on, another one with the bucket of the records joins, and one with the state bucket ends.
func TestExit_FromOneBucketToTwo(t *testing.T) {
	t.Parallel()
	c := harness.NewCluster(t, harness.ClusterConfig{Agents: 1, ControlPlanes: 1})
	one := c.ControlPlanes[0]
	state := c.S3.URL("bucket", "state")
	two := c.NewControlPlaneWith(t, "controlplane-two", "--bucket", "", "--state-bucket", state)
	agent := func(name string, flags ...string) *harness.Agent {
		return c.NewAgentWith(t, name, append(flags, "--control-plane", one.GRPC+","+two.GRPC)...)
	}
	one.Restart()
	serving := agent("agent-serving", "--zone", "a")
	serving.Restart()
	harness.CLI(t, serving.Bootstrap, nil, "topic", "create", "t")
	harness.CLI(t, serving.Bootstrap, strings.NewReader("a\n"), "produce", "t")
	_, err := one.Terminate(time.Minute)
	require.NoError(t, err)
	two.Restart()
	harness.CLI(t, serving.Bootstrap, strings.NewReader("b\n"), "produce", "t")

	wrong := agent("agent-wrong", "--zone", "b", "--bucket", state)
	wrong.Launch()
	require.Regexp(t, `^--bucket s3://bucket/state\S+ has no object \S+/bundles/\S+, which the control plane refers to for virtual cluster "main": set --bucket to that`,
		exitLine(t, wrong.Process, exitLimit))
	requireNoBundles(t, c.S3, "state")
	second := agent("agent-second", "--zone", "b")
	second.Launch()
	second.AwaitReady()
	require.Equal(t, "a\nb\n", harness.CLI(t, second.Bootstrap, nil, "consume", "t", "--from", "earliest", "-e"))
	_, err = serving.Terminate(time.Minute)
	require.NoError(t, err, "it has run all the time")
}

func mark(t *testing.T, bucketURL string, m marker.Marker) {
	t.Helper()
	bucket, err := bucketopen.Bucket(t.Context(), bucketURL)
	require.NoError(t, err)
	defer bucket.Close()
	_, err = marker.Create(t.Context(), bucket, "main", m)
	require.NoError(t, err)
}

func requireNoBundles(t *testing.T, s3 *testservers.S3, prefix string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(filepath.Join(s3.Dir, "bucket", prefix), func(path string, _ fs.DirEntry, err error) error {
		require.NotContains(t, path, "bundles")
		return err
	}))
}

// TestExit_StoreThatReplaces: agents and control planes end at a store that ignores If-None-Match, an agent also where the
// control plane found nothing wrong.
func TestExit_StoreThatReplaces(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, harness.ClusterConfig{Agents: 1, ControlPlanes: 1})
	harness.CLI(t, c.Bootstrap(), nil, "topic", "create", "t")
	store := *c.S3
	store.Endpoint = replacing(t, c.S3, "bucket")
	says := `^--bucket s3://bucket/freshet\S+: object store probe: the object store ignores If-None-Match: .* use a store with conditional writes`
	a := c.NewAgentWith(t, "agent-replacing", "--zone", "b", "--bucket", store.URL("bucket", "freshet"))
	produced := produceTo(t, a)
	a.Launch()
	p := c.NewControlPlaneWith(t, "controlplane-replacing", "--bucket", store.URL("bucket", "freshet"))
	p.Launch()
	require.Regexp(t, says, exitLine(t, a.Process, exitLimit))
	produced.requireNone(t)
	require.Regexp(t, says, exitLine(t, p.Process, exitLimit))
}

// replacing starts a proxy that makes a bucket ignore If-None-Match, and returns its URL. The header is signed, so the proxy passes
// it on after it has deleted the object.
func replacing(t *testing.T, s3 *testservers.S3, name string) string {
	t.Helper()
	target, err := url.Parse(s3.Endpoint)
	require.NoError(t, err)
	bucket, err := bucketopen.Bucket(t.Context(), s3.URL(name, ""))
	require.NoError(t, err)
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // signed, too
		},
		// Processes end in the midst of requests, which is no news.
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	var puts sync.Mutex
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut && r.Header.Get("If-None-Match") != "" {
			puts.Lock()
			defer puts.Unlock()
			if err := bucket.Delete(t.Context(), []string{strings.TrimPrefix(r.URL.Path, "/"+name+"/")}); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		proxy.Close()
		_ = bucket.Close() // every request has been answered
	})
	return proxy.URL
}

// TestExit_RefusedByTheOthers: a process that the running ones refuse for half a minute ends, and names the setting.
func TestExit_RefusedByTheOthers(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, harness.ClusterConfig{Agents: 1, ControlPlanes: 1, ControlFlags: []string{"--replica-id", "cp-0"}})
	address := c.ControlPlanes[0].GRPC
	processes := map[string]*testservers.Process{
		"--agent-key (SHA-256 ae448ac8...) is unknown to the control plane at " + address + ": set it to one of the control plane's --agent-key, or add its SHA-256 to the control plane's file --agent-keys": c.NewAgentWith(t, "agent-key", "--agent-key", "another").Process,
		"--virtual-cluster another is not served by the control plane at " + address + " for this --agent-key: remove it, or set it to the one that the key opens":                                            c.NewAgentWith(t, "agent-cluster", "--virtual-cluster", "another").Process,
		"--replica-id cp-0 is also the id of a running replica at " + address + ": give each replica an id of its own":                                                                                        c.NewControlPlaneWith(t, "controlplane-same").Process,
	}
	for _, p := range processes {
		p.Launch()
	}
	for says, p := range processes {
		require.Equal(t, says, exitLine(t, p, refusalLimit))
	}
	harness.CLI(t, c.Bootstrap(), nil, "topic", "create", "t")
}
