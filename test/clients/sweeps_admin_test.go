package clients

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/kafkaproto"
)

// want is 0 for the code that an API has to answer with.
func want(code, got int16) int16 {
	switch got {
	case code:
		return 0
	case 0:
		return kerr.UnknownServerError.Code
	}
	return got
}

func sweepsOfReplicas() map[int16]sweep {
	return map[int16]sweep{
		int16(kmsg.DeleteRecords): {
			func(int16, map[string][16]byte) kmsg.Request { return deleteRecords("swept", 1, -1) },
			func(r kmsg.Response) int16 { return r.(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0].ErrorCode },
		},
		int16(kmsg.ElectLeaders): {
			func(int16, map[string][16]byte) kmsg.Request {
				return electLeaders(0, kmsg.ElectLeadersRequestTopic{Topic: "swept", Partitions: []int32{0}})
			},
			func(r kmsg.Response) int16 {
				return want(kerr.ElectionNotNeeded.Code, r.(*kmsg.ElectLeadersResponse).Topics[0].Partitions[0].ErrorCode)
			},
		},
		int16(kmsg.AlterPartitionAssignments): {
			func(int16, map[string][16]byte) kmsg.Request { return reassignment("swept", 0, []int32{1}, true) },
			func(r kmsg.Response) int16 {
				return r.(*kmsg.AlterPartitionAssignmentsResponse).Topics[0].Partitions[0].ErrorCode
			},
		},
		int16(kmsg.ListPartitionReassignments): {
			func(int16, map[string][16]byte) kmsg.Request { return kmsg.NewPtrListPartitionReassignmentsRequest() },
			func(r kmsg.Response) int16 { return r.(*kmsg.ListPartitionReassignmentsResponse).ErrorCode },
		},
		int16(kmsg.AlterReplicaLogDirs): {
			func(int16, map[string][16]byte) kmsg.Request {
				req := kmsg.NewPtrAlterReplicaLogDirsRequest()
				req.Dirs = []kmsg.AlterReplicaLogDirsRequestDir{{
					Dir: "object-store", Topics: []kmsg.AlterReplicaLogDirsRequestDirTopic{{Topic: "swept", Partitions: []int32{0}}},
				}}
				return req
			},
			func(r kmsg.Response) int16 {
				return r.(*kmsg.AlterReplicaLogDirsResponse).Topics[0].Partitions[0].ErrorCode
			},
		},
		int16(kmsg.DescribeQuorum): {
			func(int16, map[string][16]byte) kmsg.Request { return describeQuorum("__cluster_metadata", 0) },
			func(r kmsg.Response) int16 { return r.(*kmsg.DescribeQuorumResponse).Topics[0].Partitions[0].ErrorCode },
		},
		int16(kmsg.UpdateFeatures): {
			func(int16, map[string][16]byte) kmsg.Request {
				return updateFeature("metadata.version", kafkaproto.Features()[0].Finalized, 1, true)
			},
			func(r kmsg.Response) int16 { return r.(*kmsg.UpdateFeaturesResponse).ErrorCode },
		},
		int16(kmsg.UnregisterBroker): {
			func(int16, map[string][16]byte) kmsg.Request { return &kmsg.UnregisterBrokerRequest{BrokerID: 77} },
			func(r kmsg.Response) int16 {
				return want(kerr.BrokerIDNotRegistered.Code, r.(*kmsg.UnregisterBrokerResponse).ErrorCode)
			},
		},
		int16(kmsg.ListConfigResources): {
			func(int16, map[string][16]byte) kmsg.Request { return kmsg.NewPtrListConfigResourcesRequest() },
			func(r kmsg.Response) int16 { return r.(*kmsg.ListConfigResourcesResponse).ErrorCode },
		},
	}
}

func sweepsOfSecurity() map[int16]sweep {
	all := map[int16]sweep{}
	add := func(code int16, ask func() kmsg.Request, got func(kmsg.Response) int16) {
		all[ask().Key()] = sweep{
			func(int16, map[string][16]byte) kmsg.Request { return ask() },
			func(r kmsg.Response) int16 { return want(code, got(r)) },
		}
	}
	noSASL, noACLs, noTokens := kerr.IllegalSaslState.Code, kerr.SecurityDisabled.Code, kerr.DelegationTokenRequestNotAllowed.Code
	add(noSASL, func() kmsg.Request { return kmsg.NewPtrSASLHandshakeRequest() },
		func(r kmsg.Response) int16 { return r.(*kmsg.SASLHandshakeResponse).ErrorCode })
	add(noSASL, func() kmsg.Request { return kmsg.NewPtrSASLAuthenticateRequest() },
		func(r kmsg.Response) int16 { return r.(*kmsg.SASLAuthenticateResponse).ErrorCode })
	add(noACLs, func() kmsg.Request { return describeACLs() }, func(r kmsg.Response) int16 { return r.(*kmsg.DescribeACLsResponse).ErrorCode })
	add(noACLs, func() kmsg.Request { return createACLs() }, func(r kmsg.Response) int16 { return r.(*kmsg.CreateACLsResponse).Results[1].ErrorCode })
	add(noACLs, func() kmsg.Request { return deleteACLs() }, func(r kmsg.Response) int16 { return r.(*kmsg.DeleteACLsResponse).Results[0].ErrorCode })
	add(noTokens, func() kmsg.Request { return kmsg.NewPtrCreateDelegationTokenRequest() },
		func(r kmsg.Response) int16 { return r.(*kmsg.CreateDelegationTokenResponse).ErrorCode })
	add(noTokens, func() kmsg.Request { return kmsg.NewPtrRenewDelegationTokenRequest() },
		func(r kmsg.Response) int16 { return r.(*kmsg.RenewDelegationTokenResponse).ErrorCode })
	add(noTokens, func() kmsg.Request { return kmsg.NewPtrExpireDelegationTokenRequest() },
		func(r kmsg.Response) int16 { return r.(*kmsg.ExpireDelegationTokenResponse).ErrorCode })
	add(noTokens, func() kmsg.Request { return kmsg.NewPtrDescribeDelegationTokenRequest() },
		func(r kmsg.Response) int16 { return r.(*kmsg.DescribeDelegationTokenResponse).ErrorCode })
	add(0, func() kmsg.Request { return kmsg.NewPtrDescribeClientQuotasRequest() },
		func(r kmsg.Response) int16 { return r.(*kmsg.DescribeClientQuotasResponse).ErrorCode })
	add(kerr.InvalidRequest.Code, func() kmsg.Request {
		return &kmsg.AlterClientQuotasRequest{Entries: make([]kmsg.AlterClientQuotasRequestEntry, 1)}
	}, func(r kmsg.Response) int16 { return r.(*kmsg.AlterClientQuotasResponse).Entries[0].ErrorCode })
	add(0, func() kmsg.Request { return kmsg.NewPtrDescribeUserSCRAMCredentialsRequest() },
		func(r kmsg.Response) int16 { return r.(*kmsg.DescribeUserSCRAMCredentialsResponse).ErrorCode })
	add(kerr.ResourceNotFound.Code, func() kmsg.Request {
		return &kmsg.AlterUserSCRAMCredentialsRequest{Deletions: []kmsg.AlterUserSCRAMCredentialsRequestDeletion{{Name: "x", Mechanism: 1}}}
	}, func(r kmsg.Response) int16 { return r.(*kmsg.AlterUserSCRAMCredentialsResponse).Results[0].ErrorCode })
	add(0, func() kmsg.Request { return kmsg.NewPtrGetTelemetrySubscriptionsRequest() },
		func(r kmsg.Response) int16 { return r.(*kmsg.GetTelemetrySubscriptionsResponse).ErrorCode })
	add(kerr.UnknownSubscriptionID.Code, func() kmsg.Request {
		return &kmsg.PushTelemetryRequest{ClientInstanceID: [16]byte{9}, SubscriptionID: 9}
	},
		func(r kmsg.Response) int16 { return r.(*kmsg.PushTelemetryResponse).ErrorCode })
	return all
}
