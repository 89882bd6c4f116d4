package classic

import (
	"bytes"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// member is a member with what of it is soft.
type member struct {
	Member
	bytes   int       // weight as last counted in the roster
	expires time.Time // when its session ends; zero if nothing ends it
	// repeatedUntil is the end of the time in which an agent repeats the answer to a heartbeat of the member, unless recalled. The session
	// time-out begins no earlier.
	repeatedUntil time.Time
	fresh         bool // its first join is parked; it can expire although it waits

	join func(*kmsg.JoinGroupResponse) // parked; nil if none
	sync func(*kmsg.SyncGroupResponse) // parked; nil if none

	joinVersion, syncVersion int16
}

// waits tells whether the coordinator owes the member an answer, so that no heartbeats are to be expected.
func (m *member) waits() bool { return !m.fresh && (m.join != nil || m.sync != nil) }

// matches tells whether the protocols are those of the member: names, metadata and order.
func (m *member) matches(protocols []kmsg.JoinGroupRequestProtocol) bool {
	return slices.EqualFunc(m.Protocols, protocols, func(a Protocol, b kmsg.JoinGroupRequestProtocol) bool {
		return a.Name == b.Name && bytes.Equal(a.Metadata, b.Metadata)
	})
}

// metadata under the protocol chosen; every member of a generation has some.
func (m *member) metadata(protocol string) []byte {
	metadata, _ := m.Metadata(protocol)
	return metadata
}

// park keeps a join. One that waits already gives way to it: its connection may be gone, yet it is owed an answer.
func (g *Group) parkJoin(m *member, version int16, reply func(*kmsg.JoinGroupResponse)) {
	g.answerJoin(m, joinError(m.ID, codeRebalanceInProgress))
	m.join, m.joinVersion = reply, version
	g.roster.joining++
}

func (g *Group) parkSync(m *member, version int16, reply func(*kmsg.SyncGroupResponse)) {
	g.answerSync(m, syncError(codeRebalanceInProgress))
	m.sync, m.syncVersion = reply, version
}

// answerJoin answers the join that the member has parked, if it has.
func (g *Group) answerJoin(m *member, resp *kmsg.JoinGroupResponse) {
	if m.join == nil {
		return
	}
	reply := m.join
	m.join = nil
	g.roster.joining--
	g.replyJoin(m.joinVersion, resp, reply)
}

func (g *Group) answerSync(m *member, resp *kmsg.SyncGroupResponse) bool {
	if m.sync == nil {
		return false
	}
	reply := m.sync
	m.sync = nil
	g.replySync(m.syncVersion, resp, reply)
	return true
}

func (g *Group) replyJoin(version int16, resp *kmsg.JoinGroupResponse, reply func(*kmsg.JoinGroupResponse)) {
	resp.Version = version
	g.out.Answer(func() { reply(resp) })
}

func (g *Group) replySync(version int16, resp *kmsg.SyncGroupResponse, reply func(*kmsg.SyncGroupResponse)) {
	resp.Version = version
	g.out.Answer(func() { reply(resp) })
}

// joinError is an answer without a generation. Its protocol name is empty, not null, as in Kafka's answers that do not
// set it.
func joinError(id string, code int16) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.MemberID, resp.ErrorCode, resp.Protocol = id, code, new(string)
	return resp
}

// fencedJoin is joinError with a null protocol name, which is how Kafka tells it of fenced and unknown members.
func fencedJoin(id string, code int16) *kmsg.JoinGroupResponse {
	resp := joinError(id, code)
	resp.Protocol = nil
	return resp
}

func syncError(code int16) *kmsg.SyncGroupResponse {
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.ErrorCode, resp.MemberAssignment = code, []byte{}
	return resp
}
