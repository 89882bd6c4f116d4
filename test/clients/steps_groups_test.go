package clients

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// offsetCommit commits an offset of one partition; generation -1 is a client without membership.
func offsetCommit(s *side, group, topic string, partition int32, change func(*kmsg.OffsetCommitRequest)) kmsg.Request {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = group, -1
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.TopicID = topic, idOf(s, topic)
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.Metadata = partition, 42, kmsg.StringPtr("a note")
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	if change != nil {
		change(req)
	}
	return req
}

// idOf is a topic's id on a side, one that nobody has if there is no such topic.
func idOf(s *side, topic string) [16]byte {
	if id, ok := s.ids[topic]; ok {
		return id
	}
	return [16]byte{0xab}
}

// offsetFetch asks for partitions of one topic, or for everything if there is none.
func offsetFetch(s *side, version int16, group, topic string, partitions ...int32) *kmsg.OffsetFetchRequest {
	req := kmsg.NewPtrOffsetFetchRequest()
	if version < 8 {
		req.Group = group
		if topic != "" {
			req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: topic, Partitions: partitions}}
		}
		return req
	}
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	if topic != "" {
		g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: topic, TopicID: idOf(s, topic), Partitions: partitions}}
	}
	req.Groups = append(req.Groups, g)
	return req
}

// awaitGroups waits until the coordinators of the groups below are there: Kafka makes their topic when it is asked for
// the first one, and loads its partitions then.
func awaitGroups(t *testing.T, kafka *side) {
	t.Helper()
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKeys = []string{"simple"}
	fetch := kmsg.NewPtrOffsetFetchRequest()
	for _, group := range []string{"simple", "nobody", "negative", "fresh", "next", ""} {
		fetch.Groups = append(fetch.Groups, offsetFetch(kafka, 8, group, "plain", 0).Groups...)
	}
	require.Eventually(t, func() bool {
		ask[*kmsg.FindCoordinatorResponse](t, kafka.conn, find, 4)
		for _, g := range ask[*kmsg.OffsetFetchResponse](t, kafka.conn, fetch, 8).Groups {
			if g.ErrorCode != 0 {
				return false
			}
		}
		return true
	}, time.Minute, 100*time.Millisecond)
}

func offsetSteps() []step {
	commit := func(name, group, topic string, partition int32, change func(*kmsg.OffsetCommitRequest)) step {
		return step{name: name, req: func(s *side, _ int16) kmsg.Request { return offsetCommit(s, group, topic, partition, change) }}
	}
	fetch := func(name, group, topic string, partitions ...int32) step {
		return step{name: name, req: func(s *side, version int16) kmsg.Request {
			return offsetFetch(s, version, group, topic, partitions...)
		}}
	}
	all := fetch("fetch all", "simple", "")
	all.versions = from(kmsg.OffsetFetch, 2)
	none := fetch("fetch all of nobody", "nobody", "")
	none.versions = from(kmsg.OffsetFetch, 2)
	stable := step{name: "fetch stable", versions: from(kmsg.OffsetFetch, 7), req: func(s *side, version int16) kmsg.Request {
		req := offsetFetch(s, version, "simple", "plain", 0, 1)
		req.RequireStable = true
		return req
	}}
	asMember := step{name: "fetch as a member of a group without", versions: from(kmsg.OffsetFetch, 9), req: func(s *side, version int16) kmsg.Request {
		req := offsetFetch(s, version, "simple", "plain", 0)
		req.Groups[0].MemberID, req.Groups[0].MemberEpoch = kmsg.StringPtr("m"), 3
		return req
	}}
	two := step{name: "fetch of two groups", versions: from(kmsg.OffsetFetch, 8), req: func(s *side, version int16) kmsg.Request {
		req := offsetFetch(s, version, "simple", "plain", 0)
		req.Groups = append(req.Groups, offsetFetch(s, version, "nobody", "plain", 0, 7).Groups...)
		return req
	}}
	return []step{
		commit("commit", "simple", "plain", 0, nil),
		commit("commit to the empty group", "", "plain", 0, nil),
		commit("commit to an unknown topic", "simple", "unknown", 0, nil),
		commit("commit to an unknown partition", "simple", "plain", 9, nil),
		commit("commit to a negative partition", "simple", "plain", -1, nil),
		commit("commit a negative offset", "negative", "plain", 0, func(r *kmsg.OffsetCommitRequest) { r.Topics[0].Partitions[0].Offset = -5 }),
		commit("commit without a note", "simple", "plain", 1, func(r *kmsg.OffsetCommitRequest) { r.Topics[0].Partitions[0].Metadata = nil }),
		commit("commit a large note", "simple", "plain", 1, func(r *kmsg.OffsetCommitRequest) {
			r.Topics[0].Partitions[0].Metadata = kmsg.StringPtr(strings.Repeat("x", 4097))
		}),
		commit("commit of a generation nobody has", "nobody", "plain", 0, func(r *kmsg.OffsetCommitRequest) { r.Generation = 1 }),
		commit("commit of an unknown member", "simple", "plain", 0, func(r *kmsg.OffsetCommitRequest) { r.Generation, r.MemberID = 1, "m" }),
		commit("commit of a member without generation", "simple", "plain", 0, func(r *kmsg.OffsetCommitRequest) { r.MemberID = "m" }),
		commit("commit of nothing", "simple", "plain", 0, func(r *kmsg.OffsetCommitRequest) { r.Topics = nil }),
		commit("commit of good and bad", "simple", "plain", 0, func(r *kmsg.OffsetCommitRequest) {
			p := r.Topics[0].Partitions[0]
			p.Partition = 8
			r.Topics[0].Partitions = append(r.Topics[0].Partitions, p)
		}),
		fetch("fetch", "simple", "plain", 0, 1, 2), fetch("fetch an unknown partition", "simple", "plain", 9),
		fetch("fetch an unknown topic", "simple", "unknown", 0), fetch("fetch of nobody", "nobody", "plain", 0),
		fetch("fetch of the empty group", "", "plain", 0), fetch("fetch no partition", "simple", "plain"),
		all, none, stable, asMember, two,
		deleteOffset("delete offsets of nobody", "nobody", "plain", 0), deleteOffset("delete offsets of the empty group", "", "plain", 0),
		deleteOffset("delete an unknown topic", "simple", "unknown", 0), deleteOffset("delete an unknown partition", "simple", "plain", 9, 2),
		deleteOffset("delete", "simple", "plain", 1, 2), fetch("fetch what was deleted", "simple", "plain", 0, 1),
	}
}

func deleteOffset(name, group, topic string, partitions ...int32) step {
	return step{name: name, req: func(*side, int16) kmsg.Request {
		req := kmsg.NewPtrOffsetDeleteRequest()
		req.Group = group
		t := kmsg.NewOffsetDeleteRequestTopic()
		t.Topic = topic
		for _, n := range partitions {
			t.Partitions = append(t.Partitions, kmsg.OffsetDeleteRequestTopicPartition{Partition: n})
		}
		req.Topics = append(req.Topics, t)
		return req
	}}
}

// joinGroup joins a classic group with one protocol.
func joinGroup(group, member string, sessionMs int32) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.ProtocolType = group, member, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = sessionMs, sessionMs
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Topics = []string{"plain"}
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", meta.AppendTo(nil)
	req.Protocols = append(req.Protocols, p)
	return req
}

// anyVersion makes a step of a request that is the same on both sides.
func anyVersion(name string, req func() kmsg.Request) step {
	return step{name: name, req: func(*side, int16) kmsg.Request { return req() }}
}

func classicGroupSteps() []step {
	randomID := map[string]string{"MemberID": "member ids are random"}
	join := func(name, group, member string, sessionMs int32, change func(*kmsg.JoinGroupRequest)) step {
		return anyVersion(name, func() kmsg.Request {
			req := joinGroup(group, member, sessionMs)
			if change != nil {
				change(req)
			}
			return req
		})
	}
	needsID := join("join without an id", "fresh", "", 10_000, nil)
	needsID.versions, needsID.differs = from(kmsg.JoinGroup, 4), randomID
	beat := func(name, group, member string) step {
		return anyVersion(name, func() kmsg.Request {
			req := kmsg.NewPtrHeartbeatRequest()
			req.Group, req.MemberID, req.Generation = group, member, 1
			return req
		})
	}
	syncs := func(name, group, member string) step {
		return anyVersion(name, func() kmsg.Request {
			req := kmsg.NewPtrSyncGroupRequest()
			req.Group, req.MemberID, req.Generation = group, member, 1
			if name == "sync" {
				req.ProtocolType, req.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
			}
			return req
		})
	}
	leave := func(name, group, member string) step {
		return anyVersion(name, func() kmsg.Request {
			req := kmsg.NewPtrLeaveGroupRequest()
			req.Group, req.MemberID = group, member
			m := kmsg.NewLeaveGroupRequestMember()
			m.MemberID = member
			req.Members = append(req.Members, m)
			return req
		})
	}
	return []step{
		needsID, join("join with an unknown id", "nobody", "m", 10_000, nil), join("join the empty group", "", "", 10_000, nil),
		join("join with a short session", "nobody", "", 1, nil), join("join with a long session", "nobody", "", 1<<31-1, nil),
		join("join without protocols", "nobody", "m", 10_000, func(r *kmsg.JoinGroupRequest) { r.Protocols = nil }),
		join("join without a protocol type", "nobody", "m", 10_000, func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "" }),
		beat("heartbeat of nobody", "nobody", "m"), beat("heartbeat of an empty group", "simple", "m"), beat("heartbeat of no group", "", "m"),
		syncs("sync", "nobody", "m"), syncs("sync of an empty group", "simple", "m"), syncs("sync of no group", "", "m"),
		leave("leave nobody", "nobody", "m"), leave("leave an empty group", "simple", "m"), leave("leave no group", "", "m"),
	}
}

// unordered is a step whose groups come in the order of Kafka's hash tables.
func unordered(st step) step {
	st.differs = map[string]string{`Groups\[\d+\]\.Group`: "groups are listed by name here, in the order of hash tables there"}
	return st
}

func groupAdminSteps() []step {
	describe := func(name string, operations bool, groups ...string) step {
		return anyVersion(name, func() kmsg.Request {
			req := kmsg.NewPtrDescribeGroupsRequest()
			req.Groups, req.IncludeAuthorizedOperations = groups, operations
			return req
		})
	}
	consumers := func(name string, operations bool, groups ...string) step {
		return anyVersion(name, func() kmsg.Request {
			req := kmsg.NewPtrConsumerGroupDescribeRequest()
			req.Groups, req.IncludeAuthorizedOperations = groups, operations
			return req
		})
	}
	list := func(name string, versions []int16, states, types []string) step {
		st := anyVersion(name, func() kmsg.Request {
			req := kmsg.NewPtrListGroupsRequest()
			req.StatesFilter, req.TypesFilter = states, types
			return req
		})
		st.versions = versions
		return st
	}
	remove := func(name string, groups ...string) step {
		return anyVersion(name, func() kmsg.Request {
			req := kmsg.NewPtrDeleteGroupsRequest()
			req.Groups = groups
			return req
		})
	}
	return []step{
		describe("describe", true, "simple"), describe("describe nobody", true, "nobody"), describe("describe without operations", false, "simple"),
		describe("describe the empty group", false, ""), describe("describe none", false),
		consumers("describe a classic group as a consumer group", true, "simple"), consumers("describe no consumer group", true, "nobody"), consumers("describe the empty consumer group", false, ""),
		unordered(list("list", nil, nil, nil)), unordered(list("list empty ones", from(kmsg.ListGroups, 4), []string{"eMPTY"}, nil)),
		list("list stable ones", from(kmsg.ListGroups, 4), []string{"Stable"}, nil),
		list("list of an unknown state", from(kmsg.ListGroups, 4), []string{"bogus"}, nil),
		unordered(list("list classic ones", from(kmsg.ListGroups, 5), nil, []string{"classic"})),
		list("list consumer ones", from(kmsg.ListGroups, 5), nil, []string{"Consumer"}),
		list("list of an unknown type", from(kmsg.ListGroups, 5), nil, []string{"bogus"}),
		remove("delete nobody", "nobody"), remove("delete the empty group", ""), remove("delete", "negative"), remove("delete no groups"), remove("delete twice", "nobody", "nobody"),
	}
}

// consumerHeartbeat is a heartbeat of the consumer protocol by a member that made its id.
func consumerHeartbeat(group, member string, epoch int32, change func(*kmsg.ConsumerGroupHeartbeatRequest)) step {
	st := anyVersion(fmt.Sprintf("heartbeat of %s in %s at %d", member, group, epoch), func() kmsg.Request {
		req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		req.Group, req.MemberID, req.MemberEpoch = group, member, epoch
		if epoch == 0 {
			req.RebalanceTimeoutMillis, req.Topics = 60_000, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
			req.SubscribedTopicNames = []string{"plain"}
		}
		if change != nil {
			change(req)
		}
		return req
	})
	st.versions = only(1)
	return st
}

func consumerGroupSteps() []step {
	named := func(name string, st step) step {
		st.name = name
		return st
	}
	commit := func(name string, epoch int32, versions []int16) step {
		return step{name: name, versions: versions, req: func(s *side, _ int16) kmsg.Request {
			return offsetCommit(s, "next", "plain", 0, func(r *kmsg.OffsetCommitRequest) { r.MemberID, r.Generation = "m1", epoch })
		}}
	}
	fetch := func(name, member string, epoch int32) step {
		return step{name: name, versions: from(kmsg.OffsetFetch, 9), req: func(s *side, version int16) kmsg.Request {
			req := offsetFetch(s, version, "next", "plain", 0)
			req.Groups[0].MemberID, req.Groups[0].MemberEpoch = &member, epoch
			return req
		}}
	}
	return []step{
		consumerHeartbeat("nobody", "m", 5, nil), consumerHeartbeat("", "m", 0, nil), consumerHeartbeat("next", "", 0, nil),
		consumerHeartbeat("nobody", "m", -1, nil), consumerHeartbeat("nobody", "m", -3, nil),
		named("leave for a while without an instance id", consumerHeartbeat("nobody", "m", -2, nil)),
		named("join without a subscription", consumerHeartbeat("next", "m", 0, func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			r.SubscribedTopicNames = nil
		})),
		named("join without a rebalance time-out", consumerHeartbeat("next", "m", 0, func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			r.RebalanceTimeoutMillis = -1
		})),
		named("join with an unknown assignor", consumerHeartbeat("next", "m", 0, func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			r.ServerAssignor = kmsg.StringPtr("bogus")
		})),
		named("join with a bad pattern", consumerHeartbeat("next", "m", 0, func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			r.SubscribedTopicNames, r.SubscribedTopicRegex = nil, kmsg.StringPtr("[")
		})),
		consumerHeartbeat("next", "m1", 0, nil), consumerHeartbeat("next", "m1", 9, nil), consumerHeartbeat("next", "m2", 1, nil),
		commit("commit at an epoch to come", 9, from(kmsg.OffsetCommit, 9)), commit("commit of an old client", 9, between(kmsg.OffsetCommit, 2, 8)),
		fetch("fetch of an unknown member", "m2", 1), fetch("fetch at an epoch to come", "m1", 9),
		anyVersion("describe a consumer group as a classic one", func() kmsg.Request {
			req := kmsg.NewPtrDescribeGroupsRequest()
			req.Groups = []string{"next"}
			return req
		}),
		anyVersion("delete a group with members", func() kmsg.Request {
			req := kmsg.NewPtrDeleteGroupsRequest()
			req.Groups = []string{"next"}
			return req
		}),
		deleteOffset("delete what a member reads", "next", "plain", 0),
		consumerHeartbeat("next", "m1", -1, nil),
		anyVersion("describe the group when it is empty", func() kmsg.Request {
			req := kmsg.NewPtrConsumerGroupDescribeRequest()
			req.Groups = []string{"next"}
			return req
		}),
	}
}

// wanted makes an error code that shows an API at work with nobody in it the code of success.
func wanted(code int16, want *kerr.Error) int16 {
	if code == want.Code {
		return 0
	}
	return kerr.UnknownServerError.Code
}

// sweepsOfGroups go in the order of keys: what OffsetCommit makes a group is described and listed by the ones after it.
func sweepsOfGroups() map[int16]sweep {
	local := func(ids map[string][16]byte) *side { return &side{ids: ids} }
	return map[int16]sweep{
		int16(kmsg.OffsetCommit): {
			func(_ int16, ids map[string][16]byte) kmsg.Request {
				return offsetCommit(local(ids), "swept", "swept", 0, nil)
			},
			func(r kmsg.Response) int16 { return r.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode },
		},
		int16(kmsg.OffsetFetch): {
			func(version int16, ids map[string][16]byte) kmsg.Request {
				return offsetFetch(local(ids), version, "swept", "swept", 0)
			},
			func(r kmsg.Response) int16 {
				out := r.(*kmsg.OffsetFetchResponse)
				if len(out.Groups) > 0 {
					return out.Groups[0].ErrorCode + out.Groups[0].Topics[0].Partitions[0].ErrorCode
				}
				return out.ErrorCode + out.Topics[0].Partitions[0].ErrorCode
			},
		},
		int16(kmsg.JoinGroup): {
			func(version int16, _ map[string][16]byte) kmsg.Request {
				return joinGroup(fmt.Sprint("swept-", version), "", 10_000)
			},
			func(r kmsg.Response) int16 {
				if out := r.(*kmsg.JoinGroupResponse); out.Version < 4 {
					return out.ErrorCode
				}
				return wanted(r.(*kmsg.JoinGroupResponse).ErrorCode, kerr.MemberIDRequired)
			},
		},
		int16(kmsg.Heartbeat): {
			func(int16, map[string][16]byte) kmsg.Request {
				req := kmsg.NewPtrHeartbeatRequest()
				req.Group, req.MemberID = "swept", "nobody"
				return req
			},
			func(r kmsg.Response) int16 {
				return wanted(r.(*kmsg.HeartbeatResponse).ErrorCode, kerr.UnknownMemberID)
			},
		},
		int16(kmsg.SyncGroup): {
			func(int16, map[string][16]byte) kmsg.Request {
				req := kmsg.NewPtrSyncGroupRequest()
				req.Group, req.MemberID = "swept", "nobody"
				req.ProtocolType, req.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
				return req
			},
			func(r kmsg.Response) int16 {
				return wanted(r.(*kmsg.SyncGroupResponse).ErrorCode, kerr.UnknownMemberID)
			},
		},
		int16(kmsg.LeaveGroup): {
			func(int16, map[string][16]byte) kmsg.Request {
				req := kmsg.NewPtrLeaveGroupRequest()
				req.Group, req.MemberID = "nobody", "nobody"
				m := kmsg.NewLeaveGroupRequestMember()
				m.MemberID = "nobody"
				req.Members = append(req.Members, m)
				return req
			},
			func(r kmsg.Response) int16 {
				out := r.(*kmsg.LeaveGroupResponse)
				if out.Version >= 3 && out.ErrorCode == 0 {
					out.ErrorCode = first(out.Members, func(m *kmsg.LeaveGroupResponseMember) int16 { return m.ErrorCode })
				}
				return wanted(out.ErrorCode, kerr.UnknownMemberID)
			},
		},
		int16(kmsg.DescribeGroups): {
			func(int16, map[string][16]byte) kmsg.Request {
				req := kmsg.NewPtrDescribeGroupsRequest()
				req.Groups = []string{"swept"}
				return req
			},
			func(r kmsg.Response) int16 {
				return first(r.(*kmsg.DescribeGroupsResponse).Groups, func(g *kmsg.DescribeGroupsResponseGroup) int16 { return g.ErrorCode })
			},
		},
		int16(kmsg.ListGroups): {
			func(int16, map[string][16]byte) kmsg.Request { return kmsg.NewPtrListGroupsRequest() },
			func(r kmsg.Response) int16 {
				out := r.(*kmsg.ListGroupsResponse)
				return out.ErrorCode + first(out.Groups, func(*kmsg.ListGroupsResponseGroup) int16 { return 0 })
			},
		},
		int16(kmsg.TxnOffsetCommit): {
			func(_ int16, ids map[string][16]byte) kmsg.Request {
				req := kmsg.NewPtrTxnOffsetCommitRequest()
				req.Group, req.TransactionalID, req.ProducerID, req.Generation = "swept", "nobody", 7, -1
				t, p := kmsg.NewTxnOffsetCommitRequestTopic(), kmsg.NewTxnOffsetCommitRequestTopicPartition()
				t.Topic, t.TopicID, t.Partitions = "swept", ids["swept"], append(t.Partitions, p)
				req.Topics = append(req.Topics, t)
				return req
			},
			func(r kmsg.Response) int16 {
				return wanted(r.(*kmsg.TxnOffsetCommitResponse).Topics[0].Partitions[0].ErrorCode, kerr.InvalidProducerIDMapping)
			},
		},
		int16(kmsg.DeleteGroups): {
			func(int16, map[string][16]byte) kmsg.Request {
				req := kmsg.NewPtrDeleteGroupsRequest()
				req.Groups = []string{"nobody"}
				return req
			},
			func(r kmsg.Response) int16 {
				return wanted(r.(*kmsg.DeleteGroupsResponse).Groups[0].ErrorCode, kerr.GroupIDNotFound)
			},
		},
		int16(kmsg.OffsetDelete): {
			func(int16, map[string][16]byte) kmsg.Request {
				return deleteOffset("", "swept", "swept", 1).req(nil, 0)
			},
			func(r kmsg.Response) int16 {
				out := r.(*kmsg.OffsetDeleteResponse)
				return out.ErrorCode + first(out.Topics, func(t *kmsg.OffsetDeleteResponseTopic) int16 { return t.Partitions[0].ErrorCode })
			},
		},
		int16(kmsg.ConsumerGroupHeartbeat): {
			func(version int16, _ map[string][16]byte) kmsg.Request {
				return consumerHeartbeat("swept-consumers", fmt.Sprint("m", version), 0, nil).req(nil, version)
			},
			func(r kmsg.Response) int16 { return r.(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode },
		},
		int16(kmsg.ConsumerGroupDescribe): {
			func(int16, map[string][16]byte) kmsg.Request {
				req := kmsg.NewPtrConsumerGroupDescribeRequest()
				req.Groups = []string{"swept-consumers"}
				return req
			},
			func(r kmsg.Response) int16 {
				return first(r.(*kmsg.ConsumerGroupDescribeResponse).Groups, func(g *kmsg.ConsumerGroupDescribeResponseGroup) int16 {
					return g.ErrorCode
				})
			},
		},
	}
}
