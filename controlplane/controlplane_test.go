package controlplane_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/controlplane/keys"
	"github.com/freshet-io/freshet/internal/accesskey"
	"github.com/freshet-io/freshet/internal/brokerconfig"
	"github.com/freshet-io/freshet/internal/etcdserver"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/metalog/etcdlog"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/marker"
	"github.com/freshet-io/freshet/objstore/mem"
	"github.com/freshet-io/freshet/objstore/probe"
)

func TestConfig_TellsEveryFault(t *testing.T) {
	var broker brokerconfig.Settings
	require.NoError(t, broker.Set("group.consumer.session.timeout.ms", "1"))
	_, err := controlplane.New(controlplane.Config{VirtualClusters: []controlplane.VirtualCluster{{Name: "a"}, {Name: "a", Broker: broker}}})
	for _, fault := range []string{"group.consumer.session.timeout.ms must be greater than", "no replica id", "no etcd", "no bucket", "given twice", "has no agent key"} {
		require.ErrorContains(t, err, fault)
	}
}

func TestConfig_RefusesNamesAndAddressesThatFailLater(t *testing.T) {
	for value, says := range map[string]string{
		"0.0.0.0:7050": `--advertise "0.0.0.0:7050" is an address that nobody can connect to: set it to a name or address of this machine that agents reach`,
		"a b:7050":     `--advertise "a b" is no name or address of a host: set it to one, without scheme, path or spaces`,
		"cp-1":         `--advertise "cp-1" is no address: set it to host:port, as agents reach --grpc-listen`,
	} {
		_, err := controlplane.New(controlplane.Config{Advertise: value})
		require.ErrorContains(t, err, says)
	}
	for _, prefix := range []string{"/", "freshet", "/freshet/", "/a b", "/\x7f", "/ä"} {
		_, err := controlplane.New(controlplane.Config{EtcdPrefix: prefix})
		require.ErrorContains(t, err, "is no prefix of keys: set it to / and printable ASCII without spaces and without / at the end, such as /freshet/v1")
	}
	for _, replica := range []string{"a/b", "a b", "ä"} {
		_, err := controlplane.New(controlplane.Config{ReplicaID: replica})
		require.ErrorContains(t, err, fmt.Sprintf("--replica-id %q is no name of a replica: set it to printable ASCII without spaces and slashes", replica))
	}
	_, err := controlplane.New(controlplane.Config{VirtualClusters: []controlplane.VirtualCluster{{Name: "a/b"}}})
	require.ErrorContains(t, err, `--virtual-cluster "a/b" is no name of a virtual cluster: set it to 1 to 249 of a-z A-Z 0-9 . _ -`)
}

// heard is what an agent hears, on channels.
type heard struct {
	welcomes chan *api.Welcome
	secrets  chan string // that came within a stream; nil: none is expected
}

func (h heard) OnWelcome(w *api.Welcome)   { h.welcomes <- w }
func (h heard) OnPeerSecret(secret string) { h.secrets <- secret }
func (heard) OnCatalogue(*api.Catalogue)   {}
func (heard) OnNotice(*api.Notice)         {}
func (heard) OnDisconnect()                {}
func (heard) OnSessionClosed()             {}

// startEtcd starts an etcd in this process that ends with the test.
func startEtcd(t *testing.T) *etcdserver.Server {
	t.Helper()
	if testing.Short() {
		t.Skip("starts etcd")
	}
	etcd, err := etcdserver.Start(t.Context(), etcdserver.Config{Dir: t.TempDir()}, zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(etcd.Close)
	return etcd
}

// running is one control-plane replica.
type running struct {
	*controlplane.ControlPlane
	cancel context.CancelFunc
	ended  chan error
}

// forgetful replaces objects, as a store does that ignores If-None-Match.
type forgetful struct{ objstore.Bucket }

func (f forgetful) Put(ctx context.Context, key string, body objstore.Body) error {
	if err := f.Delete(ctx, []string{key}); err != nil {
		return err
	}
	return f.Bucket.Put(ctx, key, body)
}

func TestControlPlane_RefusesAStoreThatReplaces(t *testing.T) {
	etcd := startEtcd(t)
	r := start(t, etcd, forgetful{mem.New()}, "cp-1")
	defer r.cancel()
	require.ErrorIs(t, <-r.ended, probe.ErrReplaces)
}

// TestControlPlane_RefusesTheBucketOfAnotherCluster: two control planes with etcds of their own and one bucket. The second one
// ends before it has made a cluster, and the first one can still start.
func TestControlPlane_RefusesTheBucketOfAnotherCluster(t *testing.T) {
	bucket := mem.New()
	one := startEtcd(t)
	r := start(t, one, bucket, "r1")
	require.Eventually(t, func() bool { return r.Ready() == nil }, time.Minute, 10*time.Millisecond)
	found, err := marker.Read(t.Context(), bucket, "one")
	require.NoError(t, err)
	r.stop(t)

	two := startEtcd(t)
	stranger := startAs(t, two, bucket, "r2", func(c *controlplane.Config) { c.BucketLocation = "s3://records" })
	defer stranger.cancel()
	require.EqualError(t, <-stranger.ended, `--bucket s3://records holds virtual cluster "one" with cluster id `+found.ClusterID+
		`, but etcd under --etcd-prefix /freshet/v1 has no cluster of that name: set --bucket, --etcd and --etcd-prefix to those of one cluster`)

	r = start(t, one, bucket, "r1")
	require.Eventually(t, func() bool { return r.Ready() == nil }, time.Minute, 10*time.Millisecond)
	r.stop(t)
	again, err := marker.Read(t.Context(), bucket, "one")
	require.NoError(t, err)
	require.Equal(t, found, again)
}

func start(t *testing.T, etcd *etcdserver.Server, bucket objstore.Bucket, name string) *running {
	t.Helper()
	return startAs(t, etcd, bucket, name, nil)
}

// startAs starts a replica whose configuration is changed; nil: it is not.
func startAs(t *testing.T, etcd *etcdserver.Server, bucket objstore.Bucket, name string, change func(*controlplane.Config)) *running {
	t.Helper()
	cfg := controlplane.Config{
		ReplicaID: name, GRPCListen: "127.0.0.1:0", HTTPListen: "127.0.0.1:0", Etcd: etcd.Client(), Bucket: bucket, OperatorKeys: []string{"operator"},
		VirtualClusters: []controlplane.VirtualCluster{{Name: "one", AgentKeys: []string{"k1"}}, {Name: "two", AgentKeys: []string{"k2"}}},
	}
	if change != nil {
		change(&cfg)
	}
	plane, err := controlplane.New(cfg)
	require.NoError(t, err)
	require.NoError(t, plane.Listen(t.Context()))
	plane.SettleAfter(time.Second)
	plane.ReturnAfter(100 * time.Millisecond)
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{ControlPlane: plane, cancel: cancel, ended: make(chan error, 1)}
	go func() { r.ended <- plane.Run(ctx) }()
	return r
}

func (r *running) stop(t *testing.T) {
	t.Helper()
	r.cancel()
	require.NoError(t, <-r.ended)
}

// An ownership key without a lease keeps a virtual cluster without an owner. Readiness names the key and the remedy.
func TestControlPlane_NamesTheOwnershipKeyWithoutLease(t *testing.T) {
	etcd := startEtcd(t)
	clusterID, err := directory.Directory{Client: etcd.Client(), Prefix: etcdlog.DefaultPrefix}.Resolve(t.Context(), "one")
	require.NoError(t, err)
	key := etcdlog.DefaultPrefix + "/+owners/" + clusterID
	_, err = etcd.Client().Put(t.Context(), key, `{"replica":"r9","address":"nowhere:7050","nonce":"1"}`)
	require.NoError(t, err)
	r := start(t, etcd, mem.New(), "r1")
	ready := func() string { return r.get(t, "/readyz") }
	require.Eventually(t, func() bool { return strings.Contains(ready(), "etcdctl del "+key) }, time.Minute, 10*time.Millisecond)
	require.Contains(t, ready(), "virtual cluster one: no owner at the moment")
	require.Eventually(t, func() bool { return r.Owned("two") }, time.Minute, 10*time.Millisecond)
	_, err = etcd.Client().Delete(t.Context(), key)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return r.Ready() == nil }, time.Minute, 10*time.Millisecond)
	r.stop(t)
}

// TestControlPlane_RefusesKeysOfAnotherCluster: a virtual cluster does not start with keys of another cluster id, and the others run.
func TestControlPlane_RefusesKeysOfAnotherCluster(t *testing.T) {
	etcd := startEtcd(t)
	clusterID, err := directory.Directory{Client: etcd.Client(), Prefix: etcdlog.DefaultPrefix}.Resolve(t.Context(), "one")
	require.NoError(t, err)
	own, err := accesskey.New(accesskey.AgentPrefix, clusterID)
	require.NoError(t, err)
	other, err := accesskey.New(accesskey.AgentPrefix, id.NewCluster())
	require.NoError(t, err)
	for key, stops := range map[string]bool{own: false, other: true} {
		r := startAs(t, etcd, mem.New(), "r1", func(c *controlplane.Config) { c.VirtualClusters[0].AgentKeys = []string{key, "free-form"} })
		require.Eventually(t, func() bool { return r.Owned("two") }, time.Minute, 10*time.Millisecond)
		if !stops {
			require.Eventually(t, func() bool { return r.Ready() == nil }, time.Minute, 10*time.Millisecond)
			r.stop(t)
			continue
		}
		says := regexp.MustCompile("virtual cluster one: stopped on this replica, starts again after a pause: .*freshet key create --cluster-id " + clusterID)
		require.Eventually(t, func() bool { return says.MatchString(r.get(t, "/readyz")) }, time.Minute, 10*time.Millisecond)
		r.stop(t)
	}
}

func TestConfig_AgentKeys(t *testing.T) {
	one, err := accesskey.New(accesskey.AgentPrefix, id.NewCluster())
	require.NoError(t, err)
	two, err := accesskey.New(accesskey.AgentPrefix, id.NewCluster())
	require.NoError(t, err)
	for fault, keys := range map[string][2][]string{
		`key with SHA-256 2c70e12b...: one key for two virtual clusters or of two kinds: give each a key of its own`: {{"key"}, {"key"}},
		`virtual cluster "one": --agent-key: keys of two clusters`:                                                   {{one, two}, {"k"}},
		`virtual cluster "one": --agent-key ` + one[:12] + `... is no key: it has 76`:                                {{one[:76]}, {"k"}},
		`virtual cluster "two" has an empty key`:                                                                     {{"k"}, {""}},
	} {
		_, err := controlplane.New(controlplane.Config{VirtualClusters: []controlplane.VirtualCluster{
			{Name: "one", AgentKeys: keys[0]}, {Name: "two", AgentKeys: keys[1]},
		}})
		require.ErrorContains(t, err, fault)
		require.NotContains(t, err.Error(), one[30:])
	}
}

// A replica with another bucket than the owner's, which neither has a marker nor is referred to yet, says which settings to compare.
func TestControlPlane_NamesTheBucketThatIsNotTheOwners(t *testing.T) {
	etcd := startEtcd(t)
	first := start(t, etcd, mem.New(), "r1")
	require.Eventually(t, func() bool { return first.Ready() == nil }, time.Minute, 10*time.Millisecond)
	second := startAs(t, etcd, mem.New(), "r2", func(c *controlplane.Config) { c.BucketLocation = "s3://other" })
	says := "virtual cluster one: the bucket's cluster id has not been compared yet: --bucket s3://other has no object clusters/one, " +
		"which the owner r1 at " + first.Addr().String() + " writes to its own: set --bucket, --etcd and --etcd-prefix to those of the owner"
	require.Eventually(t, func() bool { return strings.Contains(second.get(t, "/readyz"), says) }, time.Minute, 10*time.Millisecond)
	second.stop(t)
	first.stop(t)
}

// A replica that has not reached etcd yet says so: its virtual clusters wait for the members' first round.
func TestControlPlane_NamesEtcdThatIsAway(t *testing.T) {
	etcd := startEtcd(t)
	away, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:1"}, Logger: zap.NewNop()})
	require.NoError(t, err)
	defer func() { require.NoError(t, away.Close()) }()
	r := startAs(t, etcd, mem.New(), "r1", func(c *controlplane.Config) { c.Etcd = away })
	says := regexp.MustCompile(`(?m)^virtual cluster one: no owner at the moment: etcd at 127\.0\.0\.1:1 \(connection refused\) does not answer, \d+ s$`)
	require.Eventually(t, func() bool { return says.MatchString(r.get(t, "/readyz")) }, time.Minute, 10*time.Millisecond)
	r.stop(t)
}

// A replica that hands over is not ready from the beginning on, and answers until all else has stopped.
func TestControlPlane_SaysThatItStops(t *testing.T) {
	r := start(t, startEtcd(t), mem.New(), "r1")
	require.Eventually(t, func() bool { return r.Ready() == nil && r.Owned("one") }, time.Minute, 10*time.Millisecond)
	conn, err := net.Dial("tcp", r.HTTPAddr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "GET /readyz HTTP/1.1\r\nHost: r1\r\n")
	require.NoError(t, err)
	require.Equal(t, "ok\n", r.get(t, "/livez"), "the connection before this one was accepted")

	r.cancel()
	require.Eventually(t, func() bool { return !r.Owned("one") }, time.Minute, time.Millisecond)
	_, err = io.WriteString(conn, "\r\n")
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
	require.Equal(t, "stopping\n", string(body))
	require.NoError(t, <-r.ended)
}

const zonesOfOne = "/v1/clusters/one/zones"

// get asks the replica's HTTP side and gives the answer's body.
func (r *running) get(t *testing.T, path string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.HTTPAddr().String()+path, nil)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer operator")
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(body)
}

// TestControlPlane_AgentKeysFile: an agent whose key goes from the file of every replica loses its stream and gets no other. A key that comes
// is taken without a restart. Keys in files alone suffice for replicas among each other.
func TestControlPlane_AgentKeysFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	write := func(all ...string) {
		var lines strings.Builder
		for _, key := range all {
			fmt.Fprintf(&lines, "two %s\n", accesskey.HashOf(key).Digits())
		}
		require.NoError(t, os.WriteFile(path, []byte(lines.String()), 0o600))
	}
	withFile := func(c *controlplane.Config) {
		c.KeyFiles = map[keys.Kind]string{keys.Agent: path}
		c.VirtualClusters = []controlplane.VirtualCluster{{Name: "one"}, {Name: "two"}}
	}
	etcd, bucket := startEtcd(t), mem.New()
	write("old")
	first := startAs(t, etcd, bucket, "r1", withFile)
	require.Eventually(t, func() bool { return first.Ready() == nil }, time.Minute, 10*time.Millisecond)
	second := startAs(t, etcd, bucket, "r2", withFile)
	require.Eventually(t, func() bool { return second.Ready() == nil && len(second.Warnings()) == 0 }, time.Minute, 10*time.Millisecond)

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	agentWith := func(key string) (*client.Session, heard) {
		h := heard{welcomes: make(chan *api.Welcome, 8)}
		s, err := client.New(client.Config{
			Replicas: []string{second.Addr().String(), first.Addr().String()}, AgentKey: key, Endpoints: []*api.Endpoint{{Host: key, Port: 1}}, Handler: h,
		})
		require.NoError(t, err)
		go func() { ended <- s.Run(ctx) }()
		return s, h
	}
	old, h := agentWith("old")
	require.Equal(t, "two", (<-h.welcomes).VirtualCluster)
	write("new")
	withdrawn := time.Now()
	require.Eventually(t, func() bool {
		asked, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := old.Fresh(asked)
		return errors.Is(err, client.ErrUnavailable)
	}, time.Minute, 10*time.Millisecond)
	t.Logf("the stream of the withdrawn key ended after %v", time.Since(withdrawn))
	_, h = agentWith("new")
	require.Equal(t, "two", (<-h.welcomes).VirtualCluster)
	require.Contains(t, first.get(t, "/metrics"), `freshet_session_streams_cut_total{reason="key_withdrawn",virtual_cluster="two"} 1`)
	cancel()
	require.NoError(t, <-ended)
	require.NoError(t, <-ended)
	second.stop(t)
	first.stop(t)
}

// TestControlPlane_PeerSecret: all owners of a virtual cluster tell its agents the same secret by which they know each other. Once the key
// in etcd is removed, the owner tells connected agents another one, and every replica has it.
func TestControlPlane_PeerSecret(t *testing.T) {
	etcd, bucket := startEtcd(t), mem.New()
	first := start(t, etcd, bucket, "r1")
	require.Eventually(t, func() bool { return first.Owned("one") && first.Owned("two") }, time.Minute, 10*time.Millisecond)
	second := start(t, etcd, bucket, "r2")
	require.Eventually(t, func() bool { return second.Ready() == nil }, time.Minute, 10*time.Millisecond)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	agentOf := func(name, key string) (heard, *api.Welcome) {
		h := heard{make(chan *api.Welcome, 8), make(chan string, 8)}
		s, err := client.New(client.Config{
			Replicas: []string{second.Addr().String(), first.Addr().String()}, VirtualCluster: name, AgentKey: key,
			Endpoints: []*api.Endpoint{{Host: name, Port: 1}}, Handler: h,
		})
		require.NoError(t, err)
		go func() { ended <- s.Run(ctx) }()
		return h, <-h.welcomes
	}
	one, welcome := agentOf("one", "k1")
	two, other := agentOf("two", "k2")
	require.Regexp(t, "^[A-Z2-7]{52}$", welcome.PeerSecret)
	require.NotEqual(t, welcome.PeerSecret, other.PeerSecret)

	_, err := etcd.Client().Delete(t.Context(), "/freshet/v1/+peers/"+welcome.ClusterId)
	require.NoError(t, err)
	removed := time.Now()
	secret := <-one.secrets
	t.Logf("the agent heard of the change after %v", time.Since(removed))
	require.NotEqual(t, welcome.PeerSecret, secret)

	first.stop(t)
	told := (<-one.welcomes).PeerSecret
	if told == welcome.PeerSecret { // the second replica reads secrets every 2 s
		told = <-one.secrets
	}
	require.Equal(t, secret, told)
	require.Equal(t, other.PeerSecret, (<-two.welcomes).PeerSecret)
	require.Empty(t, one.secrets)
	require.Empty(t, two.secrets)
	cancel()
	require.NoError(t, <-ended)
	require.NoError(t, <-ended)
	second.stop(t)
}

// TestControlPlane_KeysOfKinds: each kind of key opens its side and no other, by settings and by files, through the owner and through another
// replica.
func TestControlPlane_KeysOfKinds(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	digits := func(key string) string { return accesskey.HashOf(key).Digits() }
	etcd, bucket := startEtcd(t), mem.New()
	change := func(c *controlplane.Config) {
		c.VirtualClusters[0].ReadOnlyKeys = []string{"reader"}
		c.KeyFiles = map[keys.Kind]string{keys.Operator: file("operators", digits("operator2")+"\n"), keys.ReadOnly: file("readers", "one "+digits("reader2")+"\n")}
	}
	first := startAs(t, etcd, bucket, "r1", change)
	require.Eventually(t, func() bool { return first.Ready() == nil }, time.Minute, 10*time.Millisecond)
	second := startAs(t, etcd, bucket, "r2", change)
	require.Eventually(t, func() bool { return second.Ready() == nil }, time.Minute, 10*time.Millisecond)
	for _, r := range []*running{first, second} {
		for key, opens := range map[string][5]bool{ // zones and topics of one, zones of two, status of one, profiles
			"operator": {true, true, true, true, true}, "operator2": {true, true, true, true, true},
			"reader": {true, false, false, false, false}, "reader2": {true, false, false, false, false},
			"k1": {}, "k2": {}, "": {}, "another": {},
		} {
			for i, path := range []string{zonesOfOne, "/v1/clusters/one/deleted-topics", "/v1/clusters/two/zones", "/v1/clusters/one/status", "/debug/pprof/symbol"} {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.HTTPAddr().String()+path, nil)
				require.NoError(t, err)
				request.Header.Set("Authorization", "Bearer "+key)
				response, err := http.DefaultClient.Do(request)
				require.NoError(t, err)
				require.NoError(t, response.Body.Close())
				want := http.StatusUnauthorized
				if opens[i] {
					want = http.StatusOK
				}
				require.Equal(t, want, response.StatusCode, "%q %s", key, path)
			}
		}
	}
	second.stop(t)
	first.stop(t)
}

// Two replicas over a real etcd: agents of two virtual clusters find their owners from either, go on when one leaves
// cleanly, and HTTP says when the replica is ready. Figures for autoscalers are the owner's alone.
func TestControlPlane_TwoReplicas(t *testing.T) {
	etcd := startEtcd(t)
	bucket := mem.New()
	first := start(t, etcd, bucket, "r1")
	require.Eventually(t, func() bool { return first.Owned("one") && first.Owned("two") }, time.Minute, 10*time.Millisecond)
	second := start(t, etcd, bucket, "r2")
	require.Eventually(t, func() bool { return second.Ready() == nil }, time.Minute, 10*time.Millisecond)
	require.False(t, second.Owned("one"))

	var sessions []*client.Session
	var hears []heard
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	for i, name := range []string{"one", "two"} {
		h := heard{welcomes: make(chan *api.Welcome, 8)}
		s, err := client.New(client.Config{
			Replicas: []string{second.Addr().String(), first.Addr().String()}, VirtualCluster: name, AgentKey: []string{"k1", "k2"}[i],
			Endpoints: []*api.Endpoint{{Host: "a", Port: 1}}, Handler: h, Zone: "z", Roles: []api.Role{api.Role_ROLE_PRODUCE, api.Role_ROLE_FETCH},
			Load: func() *api.Load { return &api.Load{Cpu: 0.85} },
		})
		require.NoError(t, err)
		go func() { ended <- s.Run(ctx) }()
		welcome := <-h.welcomes
		require.Equal(t, controlplane.BundlePrefix(welcome.ClusterId), welcome.BundlePrefix)
		sessions, hears = append(sessions, s), append(hears, h)
	}
	response, err := http.Get("http://" + second.HTTPAddr().String() + "/readyz")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)

	require.Eventually(t, func() bool { return strings.Contains(first.get(t, zonesOfOne), `"desired_replicas":2`) }, time.Minute, 10*time.Millisecond)
	require.Contains(t, second.get(t, zonesOfOne), `"desired_replicas":2`, "the owner answers through another replica")
	const figure = `freshet_zone_desired_replicas{virtual_cluster="one",zone="z"} 2`
	require.Contains(t, first.get(t, "/metrics"), figure)
	require.NotContains(t, second.get(t, "/metrics"), "freshet_zone_desired_replicas{")

	handOver := time.Now()
	first.stop(t)
	for i, h := range hears {
		again := <-h.welcomes
		require.Equal(t, uint32(sessions[i].ID()), again.Session, "the same session goes on")
	}
	t.Logf("hand-over of both virtual clusters took %v", time.Since(handOver))
	require.Eventually(t, func() bool { return strings.Contains(second.get(t, "/metrics"), figure) }, time.Minute, 10*time.Millisecond)
	for _, s := range sessions {
		_, err := s.Fresh(t.Context())
		require.NoError(t, err)
		require.NoError(t, s.Goodbye(t.Context()))
		require.NoError(t, <-ended)
	}
	cancel()
	second.stop(t)
}
