package clients

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// securitySteps are about SASL, ACLs, tokens, quotas and SCRAM users, none of which is configured.
func securitySteps() []step {
	return append([]step{
		always("a SASL handshake", func() kmsg.Request { return &kmsg.SASLHandshakeRequest{Mechanism: "PLAIN"} }),
		always("authenticate", func() kmsg.Request { return &kmsg.SASLAuthenticateRequest{SASLAuthBytes: []byte("x")} }),
		always("describe ACLs", func() kmsg.Request { return describeACLs() }),
		always("create ACLs", func() kmsg.Request { return createACLs() }),
		always("create no ACLs", func() kmsg.Request { return kmsg.NewPtrCreateACLsRequest() }),
		always("delete ACLs", func() kmsg.Request { return deleteACLs() }),
		always("create a token", func() kmsg.Request {
			return &kmsg.CreateDelegationTokenRequest{MaxLifetimeMillis: -1, Renewers: []kmsg.CreateDelegationTokenRequestRenewer{{PrincipalType: "User", PrincipalName: "a"}}}
		}),
		always("renew a token", func() kmsg.Request { return &kmsg.RenewDelegationTokenRequest{HMAC: []byte("x"), RenewTimeMillis: 1} }),
		always("expire a token", func() kmsg.Request { return &kmsg.ExpireDelegationTokenRequest{HMAC: []byte("x")} }),
		always("describe tokens", func() kmsg.Request { return kmsg.NewPtrDescribeDelegationTokenRequest() }),
	}, append(quotaSteps(), scramSteps()...)...)
}

func describeACLs() *kmsg.DescribeACLsRequest {
	return &kmsg.DescribeACLsRequest{
		ResourceType: kmsg.ACLResourceTypeAny, ResourcePatternType: kmsg.ACLResourcePatternTypeAny,
		Operation: kmsg.ACLOperationAny, PermissionType: kmsg.ACLPermissionTypeAny,
	}
}

func createACLs() *kmsg.CreateACLsRequest {
	req := kmsg.NewPtrCreateACLsRequest()
	for _, name := range []string{"x", "y"} {
		req.Creations = append(req.Creations, kmsg.CreateACLsRequestCreation{
			ResourceType: kmsg.ACLResourceTypeTopic, ResourceName: name, ResourcePatternType: kmsg.ACLResourcePatternTypeLiteral,
			Principal: "User:a", Host: "*", Operation: kmsg.ACLOperationRead, PermissionType: kmsg.ACLPermissionTypeAllow,
		})
	}
	return req
}

func deleteACLs() *kmsg.DeleteACLsRequest {
	req := kmsg.NewPtrDeleteACLsRequest()
	req.Filters = append(req.Filters, kmsg.DeleteACLsRequestFilter{
		ResourceType: kmsg.ACLResourceTypeAny, ResourcePatternType: kmsg.ACLResourcePatternTypeAny,
		Operation: kmsg.ACLOperationAny, PermissionType: kmsg.ACLPermissionTypeAny,
	})
	return req
}

func quotaSteps() []step {
	type component = kmsg.DescribeClientQuotasRequestComponent
	type entity = kmsg.AlterClientQuotasRequestEntryEntity
	a, ip := "a", "10.0.0.1"
	describe := func(name string, components ...component) step {
		return always(name, func() kmsg.Request { return &kmsg.DescribeClientQuotasRequest{Components: components} })
	}
	alter := func(name, key string, value float64, remove bool, entities ...entity) step {
		return always(name, func() kmsg.Request {
			return &kmsg.AlterClientQuotasRequest{ValidateOnly: true, Entries: []kmsg.AlterClientQuotasRequestEntry{{
				Entity: entities, Ops: []kmsg.AlterClientQuotasRequestEntryOp{{Key: key, Value: value, Remove: remove}},
			}}}
		})
	}
	return []step{
		describe("all quotas"), describe("quotas of a user", component{EntityType: "user", Match: &a}),
		describe("quotas of a user twice", component{EntityType: "user", Match: &a}, component{EntityType: "user", Match: &a}),
		describe("quotas of what does not exist", component{EntityType: "bogus", Match: &a}), describe("quotas of nothing", component{Match: &a}),
		describe("quotas of an exact null", component{EntityType: "user"}),
		describe("quotas of a named default", component{EntityType: "user", MatchType: kmsg.QuotasMatchTypeDefault, Match: &a}),
		describe("quotas of address and user", component{EntityType: "ip", Match: &a}, component{EntityType: "user", Match: &a}),
		alter("remove a quota", "producer_byte_rate", 0, true, entity{Type: "user", Name: &a}),
		alter("no such quota", "bogus", 1, false, entity{Type: "user", Name: &a}),
		alter("a negative quota", "producer_byte_rate", -1, false, entity{Type: "user", Name: &a}),
		alter("a quota of nothing", "producer_byte_rate", 1, false),
		alter("a quota of what does not exist", "producer_byte_rate", 1, false, entity{Type: "bogus", Name: &a}),
		alter("a quota of address and user", "producer_byte_rate", 1, false, entity{Type: "ip", Name: &ip}, entity{Type: "user", Name: &a}),
		differing(alter("a quota", "producer_byte_rate", 1000, false, entity{Type: "user", Name: &a}), `Entries\[0\].Error(Code|Message)`, "quotas come with security"),
	}
}

func scramSteps() []step {
	up := func(name, user string, mechanism int8, iterations int32) step {
		return always(name, func() kmsg.Request {
			return &kmsg.AlterUserSCRAMCredentialsRequest{Upsertions: []kmsg.AlterUserSCRAMCredentialsRequestUpsertion{{
				Name: user, Mechanism: mechanism, Iterations: iterations, Salt: []byte("salt"), SaltedPassword: []byte("salted"),
			}}}
		})
	}
	return []step{
		always("all SCRAM users", func() kmsg.Request { return kmsg.NewPtrDescribeUserSCRAMCredentialsRequest() }),
		always("SCRAM users", func() kmsg.Request {
			return &kmsg.DescribeUserSCRAMCredentialsRequest{Users: []kmsg.DescribeUserSCRAMCredentialsRequestUser{{Name: "x"}, {Name: "y"}, {Name: "y"}}}
		}),
		always("delete a SCRAM user", func() kmsg.Request {
			return &kmsg.AlterUserSCRAMCredentialsRequest{Deletions: []kmsg.AlterUserSCRAMCredentialsRequestDeletion{{Name: "x", Mechanism: 1}}}
		}),
		up("a SCRAM user with few iterations", "x", 1, 5), up("a SCRAM user with many iterations", "x", 1, 99999), up("a SCRAM user without a name", "", 1, 4096),
		up("a SCRAM user of no mechanism", "x", 9, 4096),
		differing(up("a SCRAM user", "x", 1, 4096), `Results\[(0|x)\].Error(Code|Message)`, "SASL comes with security"),
	}
}

func telemetrySteps() []step {
	instance := [16]byte{1, 2, 3, 4}
	const random = `(ClientInstanceID|SubscriptionID)`
	return []step{
		differing(always("ask what to push", func() kmsg.Request { return kmsg.NewPtrGetTelemetrySubscriptionsRequest() }), random, "random ids, and a sum of them"),
		differing(always("ask by name", func() kmsg.Request { return &kmsg.GetTelemetrySubscriptionsRequest{ClientInstanceID: instance} }), random, "a sum"),
		always("ask again at once", func() kmsg.Request { return &kmsg.GetTelemetrySubscriptionsRequest{ClientInstanceID: instance} }),
		always("push to no subscription", func() kmsg.Request { return &kmsg.PushTelemetryRequest{ClientInstanceID: instance, SubscriptionID: 5} }),
		always("push without a name", func() kmsg.Request { return &kmsg.PushTelemetryRequest{SubscriptionID: 5} }),
	}
}
