package admin

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/internal/brokerconfig"
	"github.com/freshet-io/freshet/metadata"
)

// Config of the admin APIs of one virtual cluster.
type Config struct {
	// DefaultPartitions is the partition count of topics created without one (num.partitions); default 1.
	DefaultPartitions int32
	// Broker is what the coordinators run with, shown as every broker's.
	Broker brokerconfig.Settings
	Log    *zap.Logger
}

// ApplyDefaults sets what is zero to its default.
func (c *Config) ApplyDefaults() {
	if c.DefaultPartitions == 0 {
		c.DefaultPartitions = 1
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
}

// Owner is what the APIs need of the owner of the virtual cluster (package owner).
type Owner interface {
	Enqueue(ctx context.Context, c metadata.Command) (*owner.Proposal, error)
	Read(fn func(*metadata.State)) (index uint64, err error)
	// ReadFrozen is for a fn that walks over many topics: commits go on meanwhile.
	ReadFrozen(fn func(*metadata.State)) (index uint64, err error)
}

// APIs answer forwarded requests under one owner. Safe for concurrent use.
type APIs struct {
	cfg   Config
	owner Owner
	// changes lets one request at a time look at the state and change it by what it saw.
	changes *semaphore.Weighted
}

// New gives the APIs under one owner.
func New(cfg Config, o Owner) *APIs {
	cfg.ApplyDefaults()
	return &APIs{cfg: cfg, owner: o, changes: semaphore.NewWeighted(1)}
}

// call is one request being answered.
type call struct {
	*APIs
	forward *api.Forward
}

// handler answers one decoded request.
type handler func(c *call, ctx context.Context, in kmsg.Request) (kmsg.Response, error)

// handlers by API key.
var handlers = map[int16]handler{
	int16(kmsg.CreateTopics):               on((*call).createTopics),
	int16(kmsg.DeleteTopics):               on((*call).deleteTopics),
	int16(kmsg.CreatePartitions):           on((*call).createPartitions),
	int16(kmsg.DescribeConfigs):            on((*call).describeConfigs),
	int16(kmsg.AlterConfigs):               on((*call).alterConfigs),
	int16(kmsg.IncrementalAlterConfigs):    on((*call).incrementalAlterConfigs),
	int16(kmsg.DescribeCluster):            on((*call).describeCluster),
	int16(kmsg.DescribeTopicPartitions):    on((*call).describeTopicPartitions),
	int16(kmsg.DescribeLogDirs):            on((*call).describeLogDirs),
	int16(kmsg.DeleteRecords):              on((*call).deleteRecords),
	int16(kmsg.AlterReplicaLogDirs):        on((*call).alterReplicaLogDirs),
	int16(kmsg.ElectLeaders):               on((*call).electLeaders),
	int16(kmsg.AlterPartitionAssignments):  on((*call).alterPartitionAssignments),
	int16(kmsg.ListPartitionReassignments): on((*call).listPartitionReassignments),
	int16(kmsg.DescribeQuorum):             on((*call).describeQuorum),
	int16(kmsg.UpdateFeatures):             on((*call).updateFeatures),
	int16(kmsg.UnregisterBroker):           on((*call).unregisterBroker),
	int16(kmsg.ListConfigResources):        on((*call).listConfigResources),
}

// on adapts a handler of one request type.
func on[In kmsg.Request, Out kmsg.Response](h func(*call, context.Context, In) (Out, error)) handler {
	return func(c *call, ctx context.Context, in kmsg.Request) (kmsg.Response, error) {
		return h(c, ctx, in.(In))
	}
}

// Keys gives the API keys answered here.
func (*APIs) Keys() []int16 {
	keys := make([]int16, 0, len(handlers))
	for key := range handlers {
		keys = append(keys, key)
	}
	return keys
}

// Handle answers a forwarded request with the response's body. Errors: session.ErrBadRequest if the request cannot be
// decoded or its API is not answered here; else there is no answer for now.
func (a *APIs) Handle(ctx context.Context, f *api.Forward) ([]byte, error) {
	h, ok := handlers[int16(f.ApiKey)]
	in := kmsg.RequestForKey(int16(f.ApiKey))
	if !ok || in == nil || f.ApiVersion < 0 || f.ApiVersion > int32(in.MaxVersion()) {
		return nil, fmt.Errorf("%w: api key %d version %d is not answered here", session.ErrBadRequest, f.ApiKey, f.ApiVersion)
	}
	in.SetVersion(int16(f.ApiVersion))
	if err := in.ReadFrom(f.Body); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", session.ErrBadRequest, kmsg.NameForKey(int16(f.ApiKey)), err)
	}
	out, err := h(&call{APIs: a, forward: f}, ctx, in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kmsg.NameForKey(int16(f.ApiKey)), err)
	}
	out.SetVersion(int16(f.ApiVersion))
	return out.AppendTo(nil), nil
}

// change runs fn alone among the requests that change something by what they read.
func (a *APIs) change(ctx context.Context, fn func() error) error {
	if err := a.changes.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("wait for another change: %w", err)
	}
	defer a.changes.Release(1)
	return fn()
}

// propose hands the commands to the log together and gives their results. An error means that what became of them is
// not known here.
func (a *APIs) propose(ctx context.Context, commands ...metadata.Command) ([]metadata.Result, error) {
	proposals := make([]*owner.Proposal, len(commands))
	for i, c := range commands {
		var err error
		if proposals[i], err = a.owner.Enqueue(ctx, c); err != nil {
			return nil, err
		}
	}
	results := make([]metadata.Result, len(commands))
	for i, p := range proposals {
		var err error
		if results[i], _, err = p.Wait(ctx); err != nil {
			return nil, err
		}
	}
	return results, nil
}
