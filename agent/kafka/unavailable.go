package kafka

import (
	"errors"
	"reflect"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/controlplane/client"
)

// unavailableMessage explains the error where the API has room for it. If the owner refused the request at a bound, the bound's text
// takes its place.
const unavailableMessage = "The control plane cannot be reached at the moment."

// unavailableCodes is the error of each forwarded API while the control plane cannot be reached. Stock clients retry on each.
var unavailableCodes = map[kmsg.Key]*kerr.Error{
	// The admin client looks for the controller again on NOT_CONTROLLER, and for leaders on NOT_LEADER_OR_FOLLOWER.
	kmsg.AlterPartitionAssignments:  kerr.NotController,
	kmsg.CreatePartitions:           kerr.NotController,
	kmsg.CreateTopics:               kerr.NotController,
	kmsg.DeleteTopics:               kerr.NotController,
	kmsg.ElectLeaders:               kerr.NotController,
	kmsg.ListPartitionReassignments: kerr.NotController,
	kmsg.UpdateFeatures:             kerr.NotController,
	kmsg.DeleteRecords:              kerr.NotLeaderForPartition,
	kmsg.DescribeProducers:          kerr.NotLeaderForPartition,
	kmsg.WriteTxnMarkers:            kerr.NotLeaderForPartition,
	kmsg.AlterConfigs:               kerr.RequestTimedOut,
	kmsg.AlterReplicaLogDirs:        kerr.RequestTimedOut,
	kmsg.DescribeCluster:            kerr.RequestTimedOut,
	kmsg.DescribeConfigs:            kerr.RequestTimedOut,
	kmsg.DescribeLogDirs:            kerr.RequestTimedOut,
	kmsg.DescribeQuorum:             kerr.RequestTimedOut,
	kmsg.DescribeTopicPartitions:    kerr.RequestTimedOut,
	kmsg.IncrementalAlterConfigs:    kerr.RequestTimedOut,
	kmsg.ListConfigResources:        kerr.RequestTimedOut,
	kmsg.UnregisterBroker:           kerr.RequestTimedOut,

	// Java clients, librdkafka and franz-go look for the coordinator again on NOT_COORDINATOR, whatever the API. The Java consumer
	// takes COORDINATOR_LOAD_IN_PROGRESS from SyncGroup for fatal.
	kmsg.ConsumerGroupDescribe:  kerr.NotCoordinator,
	kmsg.ConsumerGroupHeartbeat: kerr.NotCoordinator,
	kmsg.DeleteGroups:           kerr.NotCoordinator,
	kmsg.DescribeGroups:         kerr.NotCoordinator,
	kmsg.Heartbeat:              kerr.NotCoordinator,
	kmsg.JoinGroup:              kerr.NotCoordinator,
	kmsg.LeaveGroup:             kerr.NotCoordinator,
	kmsg.OffsetCommit:           kerr.NotCoordinator,
	kmsg.OffsetDelete:           kerr.NotCoordinator,
	kmsg.OffsetFetch:            kerr.NotCoordinator,
	kmsg.SyncGroup:              kerr.NotCoordinator,
	kmsg.TxnOffsetCommit:        kerr.NotCoordinator,
	kmsg.ListGroups:             kerr.CoordinatorNotAvailable, // goes to every broker: the admin client repeats on this code only

	// Producers repeat on COORDINATOR_LOAD_IN_PROGRESS without looking for another coordinator.
	kmsg.AddOffsetsToTxn:      kerr.CoordinatorLoadInProgress,
	kmsg.AddPartitionsToTxn:   kerr.CoordinatorLoadInProgress,
	kmsg.DescribeTransactions: kerr.CoordinatorLoadInProgress,
	kmsg.EndTxn:               kerr.CoordinatorLoadInProgress,
	kmsg.InitProducerID:       kerr.CoordinatorLoadInProgress,
	kmsg.ListTransactions:     kerr.CoordinatorLoadInProgress,
}

// unavailable returns an API's answer while the control plane cannot be reached: its error for the whole request or, if the API
// has no such field, for each topic, partition, group or other resource that was asked about. err is the Forwarder's error. It returns
// nil if the request cannot be decoded or the API is not in unavailableCodes.
func unavailable(req *edge.Request, err error) kmsg.Response {
	code, ok := unavailableCodes[kmsg.Key(req.Key)]
	in := kmsg.RequestForKey(req.Key)
	if !ok || in == nil || Decode(req, in) != nil {
		return nil
	}
	message := unavailableMessage
	if errors.Is(err, client.ErrThrottled) {
		message = err.Error()
	}
	return failed(in, failure{code.Code, message})
}

// failed returns an answer with one error for the whole request or for each of its parts.
func failed(in kmsg.Request, u failure) kmsg.Response {
	out := in.ResponseKind()
	to, from := reflect.ValueOf(out).Elem(), reflect.ValueOf(in).Elem()
	switch in := in.(type) {
	case *kmsg.AddPartitionsToTxnRequest:
		if in.Version < 4 { // without an error for the whole
			u.parts(to, from)
			return out
		}
	case *kmsg.AlterReplicaLogDirsRequest: // answered by topic, not by directory
		var all struct {
			Topics []kmsg.AlterReplicaLogDirsRequestDirTopic
		}
		for _, dir := range in.Dirs {
			all.Topics = append(all.Topics, dir.Topics...)
		}
		from = reflect.ValueOf(all)
	case *kmsg.DeleteTopicsRequest:
		for i := range in.TopicNames { // before version 6
			in.Topics = append(in.Topics, kmsg.DeleteTopicsRequestTopic{Topic: &in.TopicNames[i]})
		}
	case *kmsg.ElectLeadersRequest: // the whole has an error from version 1 on
		u.parts(to, from)
	case *kmsg.JoinGroupRequest:
		join := out.(*kmsg.JoinGroupResponse)
		join.MemberID = in.MemberID
		if in.Version < 7 { // not nullable
			join.Protocol = kmsg.StringPtr("")
		}
	case *kmsg.OffsetFetchRequest:
		for i := range in.Groups {
			in.Groups[i].Topics = nil // the group has the error
		}
		u.parts(to, from) // before version 8, the Java client looks for the error in partitions
		if in.Version >= 8 {
			return out
		}
	}
	fillUnset(out)
	if !u.whole(to) {
		u.parts(to, from)
	}
	return out
}

// failure is an error that fills answers.
type failure struct {
	code    int16
	message string // for the APIs that have room for it; "": none
}

// whole sets a message's error and reports whether it has one.
func (u failure) whole(out reflect.Value) bool {
	code := out.FieldByName("ErrorCode")
	if !code.IsValid() {
		return false
	}
	code.SetInt(int64(u.code))
	if message := out.FieldByName("ErrorMessage"); message.IsValid() && u.message != "" {
		message.Set(reflect.ValueOf(kmsg.StringPtr(u.message)))
	}
	return true
}

// echoed are the fields of answers that repeat a request's, with their names there.
var echoed = map[string]string{
	"Groups": "Groups", "Markers": "Markers", "Partitions": "Partitions", "Resources": "Resources", "Topics": "Topics",
	"TransactionStates": "TransactionalIDs",

	"Group": "Group", "Partition": "Partition", "ProducerID": "ProducerID", "ResourceName": "ResourceName",
	"ResourceType": "ResourceType", "Topic": "Topic", "TopicID": "TopicID",
}

// parts repeats in an answer what its request asks about, with the error for each.
func (u failure) parts(out, in reflect.Value) {
	for answer, request := range echoed {
		to, from := out.FieldByName(answer), in.FieldByName(request)
		switch {
		case !to.IsValid() || !from.IsValid():
		case to.Kind() == reflect.Slice:
			for i := range from.Len() {
				to.Set(reflect.Append(to, u.part(to.Type().Elem(), from.Index(i))))
			}
		case to.Kind() == reflect.Pointer && from.Kind() == reflect.String:
			to.Set(reflect.ValueOf(kmsg.StringPtr(from.String())))
		default:
			to.Set(from)
		}
	}
}

// part makes an answer's element about one of a request, which is a struct, or the index or name alone.
func (u failure) part(kind reflect.Type, in reflect.Value) reflect.Value {
	part := reflect.New(kind)
	part.Interface().(interface{ Default() }).Default()
	fillUnset(part.Interface())
	out := part.Elem()
	u.whole(out)
	if in.Kind() == reflect.Struct {
		u.parts(out, in)
		return out
	}
	for i := range out.NumField() {
		if f := out.Field(i); f.Type() == in.Type() { // its first field of this type
			f.Set(in)
			break
		}
	}
	return out
}

// fillUnset sets the values for "not known" that are not a message's defaults.
func fillUnset(message any) {
	switch m := message.(type) {
	case *kmsg.InitProducerIDResponse:
		m.ProducerEpoch = -1
	case *kmsg.DeleteRecordsResponseTopicPartition:
		m.LowWatermark = -1
	case *kmsg.OffsetFetchResponseTopicPartition:
		m.Offset, m.Metadata = -1, kmsg.StringPtr("")
	}
}
