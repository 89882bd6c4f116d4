package consumer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/group/classic"
)

// subscriptionOf is the metadata of a classic consumer.
func subscriptionOf(cat *topics, names, owned []string) []byte {
	s := kmsg.NewConsumerMemberMetadata()
	s.Version, s.Topics = 1, names
	for _, o := range owned {
		p := cat.partition(o)
		name, _ := cat.TopicName(p.Topic)
		s.OwnedPartitions = append(s.OwnedPartitions, kmsg.ConsumerMemberMetadataOwnedPartition{Topic: name, Partitions: []int32{p.Partition}})
	}
	return s.AppendTo(nil)
}

// upgrade: generation= [type=], then a line per member: id topics=(..) [has=(..)] [instance=] [data].
func (w *world) upgrade(t *testing.T, d *datadriven.TestData) {
	t.Helper()
	r := classic.Record{Generation: int32(number(d, "generation", 1)), ProtocolType: "consumer", Protocol: "range", Leader: "x"}
	if d.HasArg("type") {
		r.ProtocolType = text(d, "type")
	}
	for line := range strings.Lines(d.Input) {
		name, args, err := datadriven.ParseLine(line)
		require.NoError(t, err)
		m := &datadriven.TestData{CmdArgs: args}
		a := kmsg.NewConsumerMemberAssignment()
		for _, has := range list(m, "has") {
			p := w.cat.partition(has)
			topic, _ := w.cat.TopicName(p.Topic)
			a.Topics = append(a.Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: topic, Partitions: []int32{p.Partition}})
		}
		if m.HasArg("data") {
			a.UserData = []byte("mine")
		}
		metadata := subscriptionOf(w.cat, list(m, "topics"), nil)
		if m.HasArg("malformed") {
			metadata = []byte{0}
		}
		r.Members = append(r.Members, classic.Member{
			ID: name, Instance: pointer(m, "instance"), ClientID: "c", ClientHost: "/h", RebalanceTimeout: time.Minute,
			SessionTimeout: 10 * time.Second, Assignment: a.AppendTo(nil),
			Protocols: []classic.Protocol{{Name: "range", Metadata: metadata}},
		})
	}
	g, err := FromClassic("g", w.cfg, w.now, &r, w.cat)
	if err != nil {
		fmt.Fprintln(&w.out, err)
		return
	}
	w.group = g
}

// classicRequest: join, sync, heartbeat and leave of classic members.
func (w *world) classicRequest(t *testing.T, d *datadriven.TestData) {
	t.Helper()
	member, instance, generation := text(d, "member"), pointer(d, "instance"), int32(number(d, "generation", 0))
	answered := 0
	code := func(code int16) bool {
		answered++
		if code != 0 {
			fmt.Fprintln(&w.out, kerr.TypedErrorForCode(code).Message)
		}
		return code == 0
	}
	switch d.Cmd {
	case "join":
		req := w.joinRequest(d)
		w.apply(t, w.group.Join(w.now, Client{ID: "c", Host: "/h"}, req, w.cat, func(resp *kmsg.JoinGroupResponse) {
			if code(resp.ErrorCode) {
				fmt.Fprintf(&w.out, "%s in generation %d, protocol %s\n", resp.MemberID, resp.Generation, *resp.Protocol)
			} else if resp.MemberID != "" {
				fmt.Fprintf(&w.out, "id %s\n", resp.MemberID)
			}
		}))
	case "sync":
		req := kmsg.NewPtrSyncGroupRequest()
		req.Version, req.Group, req.MemberID, req.InstanceID, req.Generation = 5, "g", member, instance, generation
		req.ProtocolType, req.Protocol = pointer(d, "type"), pointer(d, "protocol")
		w.apply(t, w.group.Sync(w.now, req, w.cat, func(resp *kmsg.SyncGroupResponse) {
			if code(resp.ErrorCode) {
				var a kmsg.ConsumerMemberAssignment
				require.NoError(t, a.ReadFrom(resp.MemberAssignment))
				fmt.Fprintf(&w.out, "version %d", a.Version)
				for _, topic := range a.Topics {
					fmt.Fprintf(&w.out, " %s%v", topic.Topic, topic.Partitions)
				}
				fmt.Fprintln(&w.out)
			}
		}))
	case "heartbeat":
		req := kmsg.NewPtrHeartbeatRequest()
		req.Version, req.Group, req.MemberID, req.InstanceID, req.Generation = 4, "g", member, instance, generation
		w.apply(t, w.group.ClassicHeartbeat(w.now, req, func(resp *kmsg.HeartbeatResponse) {
			if code(resp.ErrorCode) {
				fmt.Fprintln(&w.out, "ok")
			}
		}))
	case "leave":
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Version, req.Group, req.MemberID = int16(number(d, "v", 5)), "g", member
		for _, name := range list(d, "members") {
			req.Members = append(req.Members, kmsg.LeaveGroupRequestMember{MemberID: name})
		}
		if instance != nil {
			req.Members = append(req.Members, kmsg.LeaveGroupRequestMember{MemberID: member, InstanceID: instance})
		}
		w.apply(t, w.group.ClassicLeave(w.now, req, w.cat, func(resp *kmsg.LeaveGroupResponse) {
			code(resp.ErrorCode)
			for _, m := range resp.Members {
				fmt.Fprintf(&w.out, "%s left: ", m.MemberID)
				w.code(m.ErrorCode)
			}
		}))
	}
	require.Equal(t, 1, answered)
}

func (w *world) joinRequest(d *datadriven.TestData) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.InstanceID = int16(number(d, "v", 9)), "g", text(d, "member"), pointer(d, "instance")
	req.SessionTimeoutMillis = int32(number(d, "session", 10_000))
	req.RebalanceTimeoutMillis, req.ProtocolType = 60_000, "consumer"
	if req.Version == 0 {
		req.RebalanceTimeoutMillis = -1 // as decoded
	}
	names := []string{"range"}
	if d.HasArg("protocols") {
		names = list(d, "protocols")
	}
	for _, name := range names {
		metadata := subscriptionOf(w.cat, list(d, "topics"), list(d, "owned"))
		if d.HasArg("malformed") {
			metadata = []byte{0}
		}
		req.Protocols = append(req.Protocols, kmsg.JoinGroupRequestProtocol{Name: name, Metadata: metadata})
	}
	return req
}
