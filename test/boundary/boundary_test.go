package boundary

import (
	"context"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/test/harness"
)

var topology = testservers.Topology{
	Nodes: []string{"agents", "store", "edge", "control"},
	Linked: func(a, b string) bool {
		links := []string{"agents store", "agents edge", "edge control"}
		return slices.Contains(links, a+" "+b) || slices.Contains(links, b+" "+a)
	},
}

// records is the number of records in all topics that are read back.
const records = 100_000

// run is one run of the test.
type run struct {
	*testing.T
	network *testservers.Network
	cluster *harness.Cluster
	tags    *tags
	random  *rand.Rand
	kept    map[string]int // values that are read back, and how often they were read
}

// TestBoundary_NoRecordsInControlPlane runs in make e2e-boundary.
func TestBoundary_NoRecordsInControlPlane(t *testing.T) {
	if os.Getenv("FRESHET_BOUNDARY") == "" {
		t.Skip("make e2e-boundary runs it")
	}
	network, err := topology.Start(t)
	if err != nil {
		t.Skipf("network namespaces are not allowed here: %v", err)
	}
	r := &run{T: t, network: network, tags: newTags(), random: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), kept: map[string]int{}}
	taps := &taps{t: t, place: r.place, dir: t.TempDir()}
	edge := startEdge(t, r.network.Place("edge", 1))
	t.Setenv("HTTPS_PROXY", edge.url)
	t.Setenv("NO_PROXY", "10.0.0.0/8") // so all but the public names
	r.cluster = harness.NewCluster(t, harness.ClusterConfig{
		Agents: 2, ControlPlanes: 2, StateBucket: true, Binary: build(t), Place: r.place, Front: taps.front, Public: publicName,
		ControlFlags: []string{"--snapshot-bytes", "64KiB", "--snapshot-interval", "2s", "--garbage-grace", "3s", "--orphan-age", "3s", "--topic-undelete", "0", "--log-level", "debug"},
		AgentFlags:   []string{"--flush-bytes", "128KiB", "--log-level", "debug"},
	})
	edge.serve(r.cluster)
	r.unreachable()
	for _, p := range r.cluster.ControlPlanes {
		p.Launch()
	}
	for _, a := range r.cluster.Agents {
		a.Launch()
		a.AwaitReady()
	}
	r.work()
	r.readBack()
	edge.compare(t)
	r.scan(taps)
}

// place gives each process of the harness its node.
func (r *run) place(process string) testservers.Place {
	switch process {
	case "s3":
		return r.network.Place("store", 1)
	case "etcd":
		return r.network.Place("control", 1)
	case "state":
		return r.network.Place("control", 2)
	case "controlplane-0":
		return r.network.Place("control", 3)
	case "controlplane-1":
		return r.network.Place("control", 4)
	case "agent-0":
		return r.network.Place("agents", 1)
	default:
		return r.network.Place("agents", 2)
	}
}

// unreachable checks that agents reach the store of the records and no control plane, and that control planes have no route to the store and other
// credentials.
func (r *run) unreachable() {
	address := strings.TrimPrefix(r.cluster.S3.Endpoint, "http://")
	conn, err := r.place("agent-0").Dial(r.Context(), "tcp", address)
	require.NoError(r, err)
	require.NoError(r, conn.Close())
	_, err = r.place("controlplane-0").Dial(r.Context(), "tcp", address)
	require.ErrorIs(r, err, syscall.ENETUNREACH)
	_, err = r.place("agent-0").Dial(r.Context(), "tcp", r.cluster.ControlPlanes[0].GRPC)
	require.ErrorIs(r, err, syscall.ENETUNREACH)
	require.NotEqual(r, r.cluster.S3.SecretKey, r.cluster.StateS3.SecretKey)
}

// work writes records while owners and an agent end, and has a bundle of each kind deleted.
func (r *run) work() {
	client := r.client()
	admin := kadm.NewClient(client)
	_, err := admin.CreateTopics(r.Context(), 4, -1, nil, "plain", "compressed", "transactions", "doomed")
	require.NoError(r, err)

	old := r.objects()
	r.produce(client, "doomed", 5_000, false)
	doomed := r.objects()
	for path := range old {
		delete(doomed, path)
	}
	require.NotEmpty(r, doomed)
	r.produce(client, "plain", records*6/10, true, func() {
		owner := r.cluster.Owner(r)
		owner.Kill()
		owner.Launch()
	})
	r.produce(r.client(kgo.WithCompressor(&compressor{tags: r.tags})), "compressed", records*2/10, true, func() {
		owner := r.cluster.Owner(r)
		_, err := owner.Terminate(time.Minute)
		require.NoError(r, err)
		owner.Launch()
	})
	transactional := r.client(kgo.TransactionalID("t"))
	for i := range 4 {
		require.NoError(r, transactional.BeginTransaction())
		r.produce(transactional, "transactions", records*2/10/4, true)
		require.NoError(r, transactional.EndTransaction(r.Context(), kgo.TryCommit), "transaction %d", i)
	}
	require.NoError(r, transactional.BeginTransaction())
	r.produce(transactional, "transactions", 1000, false)
	require.NoError(r, transactional.EndTransaction(r.Context(), kgo.TryAbort))

	r.cluster.Agents[1].Kill()
	r.leaveOrphans()
	r.cluster.Agents[1].Launch()
	_, err = admin.DeleteTopics(r.Context(), "doomed")
	require.NoError(r, err)
	harness.Await(r, "the objects of a deleted topic to go", func() bool {
		for path := range r.objects() {
			if doomed[path] {
				return false
			}
		}
		return true
	})
	harness.Await(r, "merges, and a sweep of an orphan and an upload", func() bool {
		logs := r.cluster.ControlPlanes[0].Output() + r.cluster.ControlPlanes[1].Output()
		return swept.MatchString(logs) && aborted.MatchString(logs) && merged(r)
	})
}

// Log lines of owners.
var (
	swept   = regexp.MustCompile(`swept orphans.* objects=[1-9]`)
	aborted = regexp.MustCompile(`swept orphans.* uploads_aborted=[1-9]`)
)

// merged reports whether an agent has finished a merge.
func merged(r *run) bool {
	sum := 0.0
	for _, a := range r.cluster.Agents {
		n, _ := a.Metric("freshet_runner_jobs_total", `result="done"`) // 0 while the agent starts
		sum += n
	}
	return sum > 0
}

func (r *run) client(opts ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(strings.Split(r.cluster.Bootstrap(), ",")...), kgo.Dialer(r.network.Place("agents", 0).Dial),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(32 << 10),
	}, opts...)...)
	require.NoError(r, err)
	r.Cleanup(client.Close)
	return client
}

// produce writes n random records, and calls meanwhile after a half of them.
func (r *run) produce(client *kgo.Client, topic string, n int, keep bool, meanwhile ...func()) {
	for i := range n {
		key, value, header := random(r.random, 16+r.random.IntN(16)), random(r.random, 64+r.random.IntN(137)), random(r.random, 20)
		r.tags.add("key", key)
		r.tags.add("value", value)
		r.tags.add("header", header)
		if keep {
			r.kept[topic+string(value)] = 0
		}
		client.Produce(r.Context(), &kgo.Record{Topic: topic, Key: key, Value: value, Headers: []kgo.RecordHeader{{Key: "h", Value: header}}}, func(_ *kgo.Record, err error) {
			if err != nil {
				r.Errorf("produce to %s: %v", topic, err)
			}
		})
		if i == n/2 {
			for _, f := range meanwhile {
				f()
			}
		}
	}
	require.NoError(r, client.Flush(r.Context()))
}

// readBack reads all kept records.
func (r *run) readBack() {
	consumer := r.client(kgo.ConsumeTopics("plain", "compressed", "transactions"), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Minute)
	defer cancel()
	for left := len(r.kept); left > 0; {
		fetches := consumer.PollFetches(ctx)
		require.NoError(r, fetches.Err(), "%d records are left", left)
		fetches.EachRecord(func(record *kgo.Record) {
			name := record.Topic + string(record.Value)
			n, ok := r.kept[name]
			if !ok || n > 0 {
				r.Errorf("record at %s-%d %d was read %d times before", record.Topic, record.Partition, record.Offset, n)
			}
			r.kept[name]++
			left--
		})
	}
}

// objects returns the paths of all bundles.
func (r *run) objects() map[string]bool {
	all := map[string]bool{}
	_ = filepath.WalkDir(filepath.Join(r.cluster.S3.Dir, "bucket"), func(path string, d os.DirEntry, err error) error { // objects go meanwhile
		if err == nil && !d.IsDir() && strings.Contains(path, "/bundles/") && !strings.Contains(path, ".sgwtmp") {
			all[path] = true
		}
		return nil
	})
	return all
}

// leaveOrphans puts an object and an unfinished upload beside the bundles of each session.
func (r *run) leaveOrphans() {
	client := s3.New(s3.Options{
		Region: r.cluster.S3.Region, BaseEndpoint: aws.String(r.cluster.S3.Endpoint), UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(r.cluster.S3.AccessKey, r.cluster.S3.SecretKey, ""),
		HTTPClient:  &http.Client{Transport: &http.Transport{DialContext: r.network.Place("agents", 0).Dial}},
	})
	bucket := filepath.Join(r.cluster.S3.Dir, "bucket")
	sessions := map[string]bool{}
	for path := range r.objects() {
		key, err := filepath.Rel(bucket, path)
		require.NoError(r, err)
		sessions[filepath.Dir(key)] = true
	}
	for session := range sessions {
		value := random(r.random, 64)
		r.tags.add("orphan", value)
		_, err := client.PutObject(r.Context(), &s3.PutObjectInput{Bucket: aws.String("bucket"), Key: aws.String(session + "/7ffffff0"), Body: strings.NewReader(string(value))})
		require.NoError(r, err)
		_, err = client.CreateMultipartUpload(r.Context(), &s3.CreateMultipartUploadInput{Bucket: aws.String("bucket"), Key: aws.String(session + "/7ffffff1")})
		require.NoError(r, err)
	}
}

// scan searches for records in all bytes that control planes received, logged and stored.
func (r *run) scan(taps *taps) {
	var planes strings.Builder
	for _, p := range r.cluster.ControlPlanes {
		planes.WriteString(p.Output())
	}
	require.Empty(r, r.tags.search([]byte(planes.String())), "in logs")
	answer, err := r.cluster.Etcd.Client(r).Get(r.Context(), "", clientv3.WithPrefix())
	require.NoError(r, err)
	require.NotEmpty(r, answer.Kvs)
	for _, kv := range answer.Kvs {
		require.Empty(r, r.tags.search(append(kv.Key, kv.Value...)), "in etcd's key %s", kv.Key)
	}
	received := scan(r.T, r.tags, taps.dir)
	state := scan(r.T, r.tags, r.cluster.StateS3.Dir)
	log := scan(r.T, r.tags, r.cluster.Etcd.Members[0].DataDir)
	require.Positive(r, received)
	require.Positive(r, state)
	r.Logf("no record in %d KiB between agents and control planes, %d KiB of their logs, %d KiB of their bucket, %d KiB of etcd",
		received>>10, planes.Len()>>10, state>>10, log>>10)
	// The search itself: the store of the records has them.
	found := ""
	for path := range r.objects() {
		p, err := os.ReadFile(path)
		if found = r.tags.find(p); err == nil && found != "" {
			break
		}
	}
	require.NotEmpty(r, found)
}
