package kafka

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/kafkaproto"
)

// forwardTimeout bounds how long a forwarded request waits for an owner: below the 30 s that stock clients give a
// request, so that they get an answer and not a silent connection.
const forwardTimeout = 20 * time.Second

// lastWords are the requests that clients send and then close the connection without waiting: consumers commit, leave
// and go. They are done all the same, as by Kafka, and this bounds how long an owner is still waited for with them: as
// long as it takes, as a rule, until there is another one. A commit has less than that: after an owner change it could
// undo a newer one that the consumer's next life made by way of another agent.
var lastWords = map[int16]time.Duration{
	int16(kmsg.LeaveGroup):             6 * time.Second,
	int16(kmsg.ConsumerGroupHeartbeat): 6 * time.Second,
	int16(kmsg.OffsetCommit):           time.Second,
}

// Forwarder hands requests to the owner of the virtual cluster and gives the response's body, after its header. It
// waits for an owner while there is none, as long as ctx allows. client.ErrInvalid says that the owner refused the
// request as malformed; any other error means that there is no answer. *client.Session is one.
type Forwarder interface {
	Forward(ctx context.Context, f client.Forward) ([]byte, error)
}

// forwarded answers one API by asking the control plane. If that cannot be reached in time, the answer is the API's
// own retriable error.
type forwarded struct {
	key     int16
	to      Forwarder
	prober  view.Prober
	zones   *Zones
	timeout time.Duration
	left    func() bool // nil: never
	log     *zap.Logger
}

func newForwarded(key int16, cfg Config) *forwarded {
	return &forwarded{
		key: key, to: cfg.Forwarder, prober: cfg.Prober, zones: cfg.Zones, timeout: cfg.ForwardTimeout, left: cfg.Left, log: cfg.Log,
	}
}

func (f *forwarded) Key() int16 { return f.key }

func (f *forwarded) Start(ctx context.Context, req *edge.Request) func() edge.Reply {
	size, err := kafkaproto.CheckBody(req.Key, req.Version, req.Body)
	if err != nil {
		return Malformed(req, err)
	}
	req.Trim(size)
	if out := f.sendOn(req); out != nil {
		return Ready(Answer(req, out))
	}
	forward := f.stamped(ctx, req)
	return func() edge.Reply { return f.ask(ctx, req, forward) }
}

func (f *forwarded) ask(ctx context.Context, req *edge.Request, forward forwardFunc) edge.Reply {
	if waitsForOthers(req.Key) {
		// Its frame would keep out, for minutes, the requests that it waits for: these forwards count in the client's
		// own bound instead.
		body := bytes.Clone(req.Body)
		req.Release()
		req.Body = body
	}
	ctx, cancel := f.bound(ctx, req)
	defer cancel()
	body, err := forward(ctx, forwardOf(req, f.zones))
	if err == nil {
		return edge.Reply{Head: body}
	}
	if !errors.Is(err, context.Canceled) {
		f.log.Debug("forwarded request not answered", zap.Int16("api_key", req.Key), zap.Error(err))
	}
	var out kmsg.Response
	if !errors.Is(err, client.ErrInvalid) {
		out = unavailable(req)
	}
	if out == nil {
		return edge.Reply{Close: true, Silent: true, Err: err}
	}
	return Answer(req, out)
}

// bound gives the context that a request is forwarded under: its connection's, but for lastWords.
func (f *forwarded) bound(ctx context.Context, req *edge.Request) (context.Context, context.CancelFunc) {
	timeout := f.timeoutOf(req)
	after, outlives := lastWords[req.Key]
	if !outlives || req.Key == int16(kmsg.ConsumerGroupHeartbeat) && !leaves(req) {
		return context.WithTimeout(ctx, timeout)
	}
	ctx, cancel := req.Outlive(ctx, after)
	ctx, expire := context.WithTimeout(ctx, timeout)
	return ctx, func() {
		expire()
		cancel()
	}
}

// leaves tells whether a heartbeat of the consumer protocol is its member's last. Any other that comes after newer ones, by way
// of another agent, would undo what these said.
func leaves(req *edge.Request) bool {
	in := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	return Decode(req, in) == nil && in.MemberEpoch < 0
}

// forwardOf is a request as the control plane gets it. The body is valid during the call.
func forwardOf(req *edge.Request, zones *Zones) client.Forward {
	zone, _ := zones.Of(req)
	return client.Forward{
		Key: req.Key, Version: req.Version, Body: req.Body,
		Principal: req.Client.Principal, ClientID: req.ClientID, Host: req.Client.Host,
		Listener: req.Client.Listener, Node: req.Client.Node, Zone: zone, Connection: req.Client.ID,
		Once: asksOnce(req),
	}
}

// unavailable is the answer of an API while the control plane cannot be reached: its retriable error in every place
// where it has one. Nil if the request cannot be decoded or the API has no such answer.
func unavailable(req *edge.Request) kmsg.Response {
	in := kmsg.RequestForKey(req.Key)
	answer, ok := unavailableAnswers[req.Key]
	if !ok || in == nil || Decode(req, in) != nil {
		return nil
	}
	return answer(in)
}

// unavailableAnswers gives each forwarded API's answer without a control plane. The codes are those that stock
// clients retry: the admin client asks for the controller again on NOT_CONTROLLER, producers repeat InitProducerId on
// COORDINATOR_LOAD_IN_PROGRESS without looking for a coordinator.
var unavailableAnswers = map[int16]func(kmsg.Request) kmsg.Response{
	int16(kmsg.CreateTopics):            unavailableCreateTopics,
	int16(kmsg.DeleteTopics):            unavailableDeleteTopics,
	int16(kmsg.CreatePartitions):        unavailableCreatePartitions,
	int16(kmsg.DescribeConfigs):         unavailableDescribeConfigs,
	int16(kmsg.AlterConfigs):            unavailableAlterConfigs,
	int16(kmsg.IncrementalAlterConfigs): unavailableIncrementalAlterConfigs,
	int16(kmsg.DescribeCluster):         unavailableDescribeCluster,
	int16(kmsg.DescribeTopicPartitions): unavailableDescribeTopicPartitions,
	int16(kmsg.DescribeLogDirs):         unavailableDescribeLogDirs,

	int16(kmsg.InitProducerID):       unavailableInitProducerID,
	int16(kmsg.AddPartitionsToTxn):   unavailableAddPartitionsToTxn,
	int16(kmsg.AddOffsetsToTxn):      unavailableAddOffsetsToTxn,
	int16(kmsg.EndTxn):               unavailableEndTxn,
	int16(kmsg.WriteTxnMarkers):      unavailableWriteTxnMarkers,
	int16(kmsg.DescribeProducers):    unavailableDescribeProducers,
	int16(kmsg.DescribeTransactions): unavailableDescribeTransactions,
	int16(kmsg.ListTransactions):     unavailableListTransactions,

	int16(kmsg.JoinGroup):              unavailableJoinGroup,
	int16(kmsg.SyncGroup):              unavailableSyncGroup,
	int16(kmsg.Heartbeat):              unavailableHeartbeat,
	int16(kmsg.LeaveGroup):             unavailableLeaveGroup,
	int16(kmsg.ConsumerGroupHeartbeat): unavailableConsumerGroupHeartbeat,
	int16(kmsg.ConsumerGroupDescribe):  unavailableConsumerGroupDescribe,
	int16(kmsg.DescribeGroups):         unavailableDescribeGroups,
	int16(kmsg.ListGroups):             unavailableListGroups,
	int16(kmsg.DeleteGroups):           unavailableDeleteGroups,
	int16(kmsg.OffsetCommit):           unavailableOffsetCommit,
	int16(kmsg.TxnOffsetCommit):        unavailableTxnOffsetCommit,
	int16(kmsg.OffsetFetch):            unavailableOffsetFetch,
	int16(kmsg.OffsetDelete):           unavailableOffsetDelete,

	int16(kmsg.DeleteRecords):              unavailableDeleteRecords,
	int16(kmsg.ElectLeaders):               unavailableElectLeaders,
	int16(kmsg.AlterPartitionAssignments):  unavailableAlterPartitionAssignments,
	int16(kmsg.ListPartitionReassignments): unavailableListPartitionReassignments,
	int16(kmsg.AlterReplicaLogDirs):        unavailableAlterReplicaLogDirs,
	int16(kmsg.DescribeQuorum):             unavailableDescribeQuorum,
	int16(kmsg.UpdateFeatures):             unavailableUpdateFeatures,
	int16(kmsg.UnregisterBroker):           unavailableUnregisterBroker,
	int16(kmsg.ListConfigResources):        unavailableListConfigResources,
}

// unavailableMessage explains the error where the API has room for it.
const unavailableMessage = "The control plane cannot be reached at the moment."

func unavailableCreateTopics(in kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrCreateTopicsResponse()
	for _, topic := range in.(*kmsg.CreateTopicsRequest).Topics {
		t := kmsg.NewCreateTopicsResponseTopic()
		t.Topic, t.ErrorCode, t.ErrorMessage = topic.Topic, kerr.NotController.Code, kmsg.StringPtr(unavailableMessage)
		out.Topics = append(out.Topics, t)
	}
	return out
}

func unavailableDeleteTopics(in kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrDeleteTopicsResponse()
	req := in.(*kmsg.DeleteTopicsRequest)
	add := func(name *string, id [16]byte) {
		t := kmsg.NewDeleteTopicsResponseTopic()
		t.Topic, t.TopicID = name, id
		t.ErrorCode, t.ErrorMessage = kerr.NotController.Code, kmsg.StringPtr(unavailableMessage)
		out.Topics = append(out.Topics, t)
	}
	for _, name := range req.TopicNames {
		add(&name, [16]byte{})
	}
	for _, topic := range req.Topics {
		add(topic.Topic, topic.TopicID)
	}
	return out
}

func unavailableCreatePartitions(in kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrCreatePartitionsResponse()
	for _, topic := range in.(*kmsg.CreatePartitionsRequest).Topics {
		t := kmsg.NewCreatePartitionsResponseTopic()
		t.Topic, t.ErrorCode, t.ErrorMessage = topic.Topic, kerr.NotController.Code, kmsg.StringPtr(unavailableMessage)
		out.Topics = append(out.Topics, t)
	}
	return out
}

func unavailableDescribeConfigs(in kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrDescribeConfigsResponse()
	for _, resource := range in.(*kmsg.DescribeConfigsRequest).Resources {
		r := kmsg.NewDescribeConfigsResponseResource()
		r.ResourceType, r.ResourceName = resource.ResourceType, resource.ResourceName
		r.ErrorCode, r.ErrorMessage = kerr.RequestTimedOut.Code, kmsg.StringPtr(unavailableMessage)
		out.Resources = append(out.Resources, r)
	}
	return out
}

func unavailableAlterConfigs(in kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrAlterConfigsResponse()
	for _, resource := range in.(*kmsg.AlterConfigsRequest).Resources {
		r := kmsg.NewAlterConfigsResponseResource()
		r.ResourceType, r.ResourceName = resource.ResourceType, resource.ResourceName
		r.ErrorCode, r.ErrorMessage = kerr.RequestTimedOut.Code, kmsg.StringPtr(unavailableMessage)
		out.Resources = append(out.Resources, r)
	}
	return out
}

func unavailableIncrementalAlterConfigs(in kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrIncrementalAlterConfigsResponse()
	for _, resource := range in.(*kmsg.IncrementalAlterConfigsRequest).Resources {
		r := kmsg.NewIncrementalAlterConfigsResponseResource()
		r.ResourceType, r.ResourceName = resource.ResourceType, resource.ResourceName
		r.ErrorCode, r.ErrorMessage = kerr.RequestTimedOut.Code, kmsg.StringPtr(unavailableMessage)
		out.Resources = append(out.Resources, r)
	}
	return out
}

func unavailableDescribeCluster(kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrDescribeClusterResponse()
	out.ErrorCode, out.ErrorMessage = kerr.RequestTimedOut.Code, kmsg.StringPtr(unavailableMessage)
	return out
}

func unavailableDescribeTopicPartitions(in kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrDescribeTopicPartitionsResponse()
	for _, topic := range in.(*kmsg.DescribeTopicPartitionsRequest).Topics {
		t := kmsg.NewDescribeTopicPartitionsResponseTopic()
		t.Topic, t.ErrorCode = kmsg.StringPtr(topic.Topic), kerr.RequestTimedOut.Code
		out.Topics = append(out.Topics, t)
	}
	return out
}

func unavailableDescribeLogDirs(kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrDescribeLogDirsResponse()
	out.ErrorCode = kerr.RequestTimedOut.Code // version 3 on; before, no directory is answered
	return out
}
