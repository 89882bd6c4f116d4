package tenants

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/internal/nightly"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/metalog/etcdlog"
	"github.com/freshet-io/freshet/test/harness"
)

const (
	noisyTime   = 20 * time.Second // once etcd is crowded
	crowdedTime = 3 * time.Minute  // until then
	noisyTopics = 20               // limit of each tenant
	// configBytes is the length of a config, about the maximum.
	configBytes = 32_000
	// nearlyCrowded is the share of the quota from which noise.configs holds. The maintainer looks at etcd every 5 s until etcd is crowded.
	nearlyCrowded = 0.5
)

// noise is the load of TestTenants_Noisy. The logs of all tenants may take 1.6 times etcd's quota.
type noise struct {
	tenants int
	quota   int64      // of etcd
	configs rate.Limit // of all tenants together in a second
}

// loud returns the load of a quarter of etcd's default quota, which a machine of any speed fills, at a quarter of the pace that two cores can
// write at, so that the quota fills as fast as in make nightly. There, it is the default quota, and
// tenants write as fast as they can.
func loud() noise {
	if nightly.On() {
		return noise{tenants: 100, quota: 2 << 30, configs: rate.Inf}
	}
	return noise{tenants: 25, quota: 512 << 20, configs: 125}
}

// TestTenants_Noisy brings tenants to their limit of topics, and has each write large configs, with the default limits of logs. Once
// their logs have filled 60 % of etcd's quota, the limits fall. etcd stays below 80 % of the quota, and a quiet tenant sees no error.
func TestTenants_Noisy(t *testing.T) {
	load := loud()
	p := startPlaneOf(t, harness.ClusterConfig{EtcdFlags: []string{"--quota-backend-bytes", fmt.Sprint(load.quota)}})
	q := p.startQuiet(t, "a-quiet-tenant")
	harness.During(3*time.Second, func() {})
	q.mark("alone")

	all := make([]*noisy, load.tenants)
	began := time.Now()
	var filling errgroup.Group
	for i := range all {
		all[i] = &noisy{random: rand.New(rand.NewPCG(1, uint64(i)))}
		filling.Go(func() error { return all[i].fill(t.Context(), p, fmt.Sprintf("noisy-%d", i)) })
	}
	require.NoError(t, filling.Wait())
	t.Logf("%d tenants were at their limit after %s", load.tenants, time.Since(began).Round(time.Millisecond))
	q.mark("while the others were made")

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var working sync.WaitGroup
	pace := rate.NewLimiter(rate.Inf, 1)
	for _, n := range all {
		working.Go(func() { n.alter(ctx, pace) })
	}
	most, inUse := int64(0), int64(0)
	look := func() {
		file, used := p.etcdBytes(t)
		most, inUse = max(most, file), max(inUse, used)
		if float64(used) >= nearlyCrowded*float64(load.quota) {
			pace.SetLimit(load.configs)
		}
	}
	began = time.Now()
	for float64(inUse) < etcdlog.CrowdedFrom*float64(load.quota) {
		require.Less(t, time.Since(began), crowdedTime, "etcd is not crowded")
		harness.During(100*time.Millisecond, look)
	}
	t.Logf("etcd was crowded after %s", time.Since(began).Round(time.Millisecond))
	room := 1.0
	for began = time.Now(); time.Since(began) < noisyTime; {
		harness.During(time.Second, look)
		for _, r := range p.ControlPlanes {
			room = min(room, p.logRoom(t, r))
		}
	}
	cancel()
	working.Wait()
	q.mark("beside")
	taken, refused := 0, 0
	for _, n := range all {
		taken, refused = taken+n.taken, refused+n.refused
	}
	t.Logf("%d configs of %d bytes were taken, %d refused", taken, configBytes, refused)
	require.Less(t, room, 1.0)
	t.Logf("the room for logs was %.2f at least", room)
	t.Logf("etcd had at most %d MiB, %.0f %% of its quota, and %.0f %% in use", most>>20, 100*float64(most)/float64(load.quota), 100*float64(inUse)/float64(load.quota))
	for i, r := range p.ControlPlanes {
		t.Logf("replica %d: peak memory %d MiB", i, peak(t, r.PID())>>20)
	}
	require.Less(t, most, load.quota/100*80)
	q.end()
	q.mark("afterwards")
}

// etcdBytes returns the size of etcd's database, which counts against its quota, and the part without free pages.
func (p *plane) etcdBytes(t *testing.T) (file, inUse int64) {
	t.Helper()
	status, err := p.etcd.Status(t.Context(), p.Etcd.Members[0].URL)
	require.NoError(t, err)
	require.Empty(t, status.Errors)
	return status.DbSize, status.DbSizeInUse
}

// logRoom returns the factor of the limits of logs on a replica.
func (p *plane) logRoom(t *testing.T, r *harness.ControlPlane) (room float64) {
	t.Helper()
	for line := range strings.Lines(p.get(t, r, "/metrics", "")) {
		if n, _ := fmt.Sscanf(line, "freshet_etcd_log_room %g", &room); n == 1 {
			return room
		}
	}
	require.Fail(t, "no room for logs in the metrics")
	return 0
}

// noisy is a tenant at its limits.
type noisy struct {
	*tenant
	random  *rand.Rand
	stream  stream
	request uint64

	taken, refused int // configs
}

// fill creates the tenant, and topics until one is refused at the limit.
func (n *noisy) fill(ctx context.Context, p *plane, name string) (err error) {
	if n.tenant, err = p.create(ctx, name); err != nil {
		return err
	}
	spec, revision, err := p.directory.Get(ctx, n.id)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx) // of the session
	defer cancel()
	defer func() { n.stream = nil }()
	spec.Memory = directory.MinMemory
	spec.Limits = metadata.Limits{metadata.LimitTopics: noisyTopics}
	if err := p.directory.Update(ctx, spec, revision); err != nil {
		return err
	}
	for topic := 0; ; {
		create := kmsg.NewPtrCreateTopicsRequest()
		create.Version, create.TimeoutMillis = 5, 5000
		created := kmsg.NewCreateTopicsRequestTopic()
		created.Topic, created.NumPartitions, created.ReplicationFactor = fmt.Sprint(topic), 1, 1
		create.Topics = append(create.Topics, created)
		answer := kmsg.NewPtrCreateTopicsResponse()
		if err := n.ask(ctx, create, answer); err != nil {
			return err
		}
		switch err := kerr.ErrorForCode(answer.Topics[0].ErrorCode); {
		case err == nil, errors.Is(err, kerr.TopicAlreadyExists): // the answer to an earlier attempt was lost
			topic++
		case errors.Is(err, kerr.PolicyViolation) && topic >= noisyTopics: // more if the limit came late
			return nil
		case !kerr.IsRetriable(err):
			return fmt.Errorf("topic %d of %s: %w", topic, n.name, err)
		}
	}
}

// alter writes new values of configs at a pace until ctx ends.
func (n *noisy) alter(ctx context.Context, pace *rate.Limiter) {
	for pace.Wait(ctx) == nil {
		element := fmt.Sprintf("%d:%d,", n.random.Uint32N(1<<20), n.random.Uint32N(1<<20))
		value := strings.TrimSuffix(strings.Repeat(element, configBytes/len(element)), ",")
		change := kmsg.NewPtrIncrementalAlterConfigsRequest()
		resource := kmsg.NewIncrementalAlterConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, fmt.Sprint(n.random.IntN(noisyTopics))
		resource.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "leader.replication.throttled.replicas", Value: &value}}
		change.Resources = append(change.Resources, resource)
		answer := kmsg.NewPtrIncrementalAlterConfigsResponse()
		switch err := n.ask(ctx, change, answer); {
		case err != nil:
			return // only once ctx has ended
		case answer.Resources[0].ErrorCode == 0:
			n.taken++
		default:
			n.refused++
		}
	}
}

// ask sends a Kafka request as an agent forwards it, until it is answered.
func (n *noisy) ask(ctx context.Context, request kmsg.Request, answer kmsg.Response) error {
	for {
		body, err := n.forward(ctx, request)
		if err == nil {
			answer.SetVersion(request.GetVersion())
			return answer.ReadFrom(body)
		}
		n.stream = nil
		if ctx.Err() != nil {
			return err
		}
	}
}

// forward forwards a request once, on a new session if there is none.
func (n *noisy) forward(ctx context.Context, request kmsg.Request) ([]byte, error) {
	if n.stream == nil {
		conn, err := n.owner(ctx)
		if err != nil {
			return nil, err
		}
		if n.stream, err = hello(ctx, conn, n.tenant, n.greeting()); err != nil {
			return nil, err
		}
	}
	n.request++
	err := n.stream.Send(&api.ToOwner{Items: []*api.AgentItem{{Item: &api.AgentItem_Forward{Forward: &api.Forward{
		Request: n.request, ApiKey: int32(request.Key()), ApiVersion: int32(request.GetVersion()), Body: request.AppendTo(nil), Connection: 1,
	}}}}})
	if err != nil {
		return nil, err
	}
	for {
		m, err := n.stream.Recv()
		if err != nil {
			return nil, err
		}
		for _, item := range m.Items {
			if f := item.GetForward(); f != nil && f.Request == n.request {
				if f.Error != nil {
					return nil, errors.New(f.Error.Message)
				}
				return f.Body, nil
			}
		}
	}
}
