package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/internal/forwarded"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/internal/brokerconfig"
	"github.com/freshet-io/freshet/metadata"
)

// Config of the admin APIs of one virtual cluster.
type Config struct {
	// DefaultPartitions is the partition count of topics created without one (num.partitions); default 1.
	DefaultPartitions int32
	// Broker has the settings of the coordinators, which every broker shows as its configs.
	Broker brokerconfig.Settings
	// UndeleteMs is the time in which the deletion of a topic can be undone. 0 means that no deletion can be undone.
	UndeleteMs int64
	Log        *zap.Logger
}

// ApplyDefaults sets zero fields to their defaults.
func (c *Config) ApplyDefaults() {
	c.DefaultPartitions = cmp.Or(c.DefaultPartitions, 1)
	c.Log = cmp.Or(c.Log, zap.NewNop())
}

// Owner is the owner of the virtual cluster (package owner).
type Owner interface {
	Enqueue(ctx context.Context, c metadata.Command) (*owner.Proposal, error)
	Read(fn func(*metadata.State)) (index uint64, err error)
	// ReadFrozen calls fn with a copy of the state, without a lock: commits go on while fn runs.
	ReadFrozen(fn func(*metadata.State)) (index uint64, err error)
}

// APIs answer forwarded requests under one owner. Safe for concurrent use.
type APIs struct {
	cfg   Config
	owner Owner
	// changes admits one request at a time that reads the state and changes it.
	changes *semaphore.Weighted
}

// New returns the APIs under one owner.
func New(cfg Config, o Owner) *APIs {
	cfg.ApplyDefaults()
	return &APIs{cfg: cfg, owner: o, changes: semaphore.NewWeighted(1)}
}

// call is one request being answered.
type call struct {
	*APIs
	forward *api.Forward
}

// handlers by API key.
var handlers = forwarded.Handlers[*call]{
	int16(kmsg.CreateTopics):               forwarded.On((*call).createTopics),
	int16(kmsg.DeleteTopics):               forwarded.On((*call).deleteTopics),
	int16(kmsg.CreatePartitions):           forwarded.On((*call).createPartitions),
	int16(kmsg.DescribeConfigs):            forwarded.On((*call).describeConfigs),
	int16(kmsg.AlterConfigs):               forwarded.On((*call).alterConfigs),
	int16(kmsg.IncrementalAlterConfigs):    forwarded.On((*call).incrementalAlterConfigs),
	int16(kmsg.DescribeCluster):            forwarded.On((*call).describeCluster),
	int16(kmsg.DescribeTopicPartitions):    forwarded.On((*call).describeTopicPartitions),
	int16(kmsg.DescribeLogDirs):            forwarded.On((*call).describeLogDirs),
	int16(kmsg.DeleteRecords):              forwarded.On((*call).deleteRecords),
	int16(kmsg.AlterReplicaLogDirs):        forwarded.On((*call).alterReplicaLogDirs),
	int16(kmsg.ElectLeaders):               forwarded.On((*call).electLeaders),
	int16(kmsg.AlterPartitionAssignments):  forwarded.On((*call).alterPartitionAssignments),
	int16(kmsg.ListPartitionReassignments): forwarded.On((*call).listPartitionReassignments),
	int16(kmsg.DescribeQuorum):             forwarded.On((*call).describeQuorum),
	int16(kmsg.UpdateFeatures):             forwarded.On((*call).updateFeatures),
	int16(kmsg.UnregisterBroker):           forwarded.On((*call).unregisterBroker),
	int16(kmsg.ListConfigResources):        forwarded.On((*call).listConfigResources),
}

// Keys returns the API keys that APIs answer.
func (*APIs) Keys() []int16 { return handlers.Keys() }

// Handle returns the body of the response to a forwarded request. Errors are those of forwarded.Handlers.
func (a *APIs) Handle(ctx context.Context, f *api.Forward) ([]byte, error) {
	return handlers.Handle(ctx, &call{APIs: a, forward: f}, f)
}

// read calls fn with a frozen copy of the state. However many names a request has, commits go on.
func (a *APIs) read(fn func(*metadata.State) error) error {
	var fault error
	_, err := a.owner.ReadFrozen(func(s *metadata.State) { fault = fn(s) })
	return cmp.Or(err, fault)
}

// change runs fn alone among the requests that read the state and change it.
func (a *APIs) change(ctx context.Context, fn func() error) error {
	if err := a.changes.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("wait for another change: %w", err)
	}
	defer a.changes.Release(1)
	return fn()
}

// maxChanges bounds the commands of one request, as Kafka's controller bounds the records of one operation
// (QuorumController.MAX_RECORDS_PER_USER_OP).
const maxChanges = 10_000

// errTooManyChanges is the result of every command of a request with more than maxChanges.
var errTooManyChanges = errors.New("too many changes in one request")

// propose hands the commands to the log together and returns their results. A command that is refused at a bound of the metadata has
// owner.ErrOverloaded as its result's error. After an error, the outcome of the commands is unknown.
func (a *APIs) propose(ctx context.Context, commands ...metadata.Command) ([]metadata.Result, error) {
	if len(commands) > maxChanges {
		return slices.Repeat([]metadata.Result{{Err: errTooManyChanges}}, len(commands)), nil
	}
	proposals, results := make([]*owner.Proposal, len(commands)), make([]metadata.Result, len(commands))
	for i, c := range commands {
		var err error
		proposals[i], err = a.owner.Enqueue(ctx, c)
		if errors.Is(err, owner.ErrOverloaded) {
			results[i].Err = err
		} else if err != nil {
			return nil, err
		}
	}
	for i, p := range proposals {
		if p == nil {
			continue // refused
		}
		var err error
		if results[i], _, err = p.Wait(ctx); err != nil {
			return nil, err
		}
	}
	return results, nil
}
