package kafka

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/kafkaproto"
)

// answerOf asks an API that answers from the request alone.
func answerOf[Out kmsg.Response](t *testing.T, in kmsg.Request, version int16, principal string) Out {
	t.Helper()
	for _, a := range NewSecurity() {
		if a.Key() != in.Key() {
			continue
		}
		in.SetVersion(version)
		req := &edge.Request{Key: in.Key(), Version: version, Body: in.AppendTo(nil), Client: &edge.Client{Principal: principal}}
		reply := a.Start(t.Context(), req)()
		require.False(t, reply.Close)
		out := in.ResponseKind()
		out.SetVersion(version)
		require.NoError(t, out.ReadFrom(reply.Head))
		return out.(Out)
	}
	t.Fatalf("nobody answers key %d", in.Key())
	panic("unreachable")
}

func TestSecurity_MalformedClosesTheConnection(t *testing.T) {
	for _, a := range NewSecurity() {
		entry, _ := kafkaproto.Lookup(a.Key())
		reply := a.Start(t.Context(), &edge.Request{Key: a.Key(), Version: entry.Served.Max, Body: []byte{0xff, 0xff, 0xff, 0xff}, Client: &edge.Client{}})()
		require.True(t, reply.Close, entry.Name)
	}
}

func TestDelegationTokens_AreRefusedByWhoAsks(t *testing.T) {
	in := kmsg.NewPtrCreateDelegationTokenRequest()
	out := answerOf[*kmsg.CreateDelegationTokenResponse](t, in, 3, anonymous)
	require.Equal(t, kerr.DelegationTokenRequestNotAllowed.Code, out.ErrorCode)
	require.Equal(t, "ANONYMOUS", out.PrincipalName)
	in.OwnerPrincipalType, in.OwnerPrincipalName = kmsg.StringPtr("User"), kmsg.StringPtr("other")
	out = answerOf[*kmsg.CreateDelegationTokenResponse](t, in, 3, "User:me")
	require.Equal(t, kerr.DelegationTokenAuthDisabled.Code, out.ErrorCode)
	require.Equal(t, "other by me", out.PrincipalName+" by "+out.TokenRequesterPrincipalName)
}

func TestAlterClientQuotas(t *testing.T) {
	type part = kmsg.AlterClientQuotasRequestEntryEntity
	type op = kmsg.AlterClientQuotasRequestEntryOp
	named := func(kind, name string) part { return part{Type: kind, Name: &name} }
	for _, c := range []struct {
		entity []part
		ops    []op
		want   string
	}{
		{[]part{named("user", "a")}, []op{{Key: "producer_byte_rate", Value: 5}}, "35 Client quotas are not part of this release: producer_byte_rate is not set."},
		{[]part{named("user", "a")}, []op{{Key: "producer_byte_rate", Remove: true}}, "0"},
		{[]part{{Type: "user"}, named("client-id", "c")}, []op{{Key: "request_percentage", Remove: true}}, "0"},
		{[]part{named("user", "a")}, []op{{Key: "producer_byte_rate"}}, "42 Quota producer_byte_rate must be greater than 0"},
		{[]part{named("ip", "10.0.0.1")}, []op{{Key: "producer_byte_rate", Value: 5}}, "42 Invalid configuration key producer_byte_rate"},
		{[]part{named("ip", "nowhere at all")}, nil, "42 nowhere at all is not a valid IP or resolvable host."},
		{[]part{named("ip", "10.0.0.1"), named("user", "a")}, nil, "42 Invalid quota entity combination, IP entity should not be combined with User or ClientId"},
		{[]part{named("group", "g")}, nil, "42 Unhandled client quota entity type: group"},
		{[]part{named("user", "")}, nil, "42 Empty user not supported"},
		{nil, nil, "42 Invalid empty client quota entity"},
	} {
		in := kmsg.NewPtrAlterClientQuotasRequest()
		in.Entries = append(in.Entries, kmsg.AlterClientQuotasRequestEntry{Entity: c.entity, Ops: c.ops})
		out := answerOf[*kmsg.AlterClientQuotasResponse](t, in, 1, anonymous)
		require.Len(t, out.Entries, 1)
		got := fmt.Sprint(out.Entries[0].ErrorCode)
		if out.Entries[0].ErrorMessage != nil {
			got += " " + *out.Entries[0].ErrorMessage
		}
		require.Equal(t, c.want, got)
		in.Entries = append(in.Entries, in.Entries[0])
		out = answerOf[*kmsg.AlterClientQuotasResponse](t, in, 0, anonymous)
		require.Len(t, out.Entries, 1, "one entity, one answer")
		require.Equal(t, kerr.InvalidRequest.Code, out.Entries[0].ErrorCode)
	}
}

// The order of an entity's parts does not matter. Entities cost little memory beside the names in the request, also if their quoted names are long.
func TestAlterClientQuotas_Entities(t *testing.T) {
	type part = kmsg.AlterClientQuotasRequestEntryEntity
	user, client := part{Type: "user", Name: kmsg.StringPtr("a")}, part{Type: "client-id", Name: kmsg.StringPtr("a")}
	in := kmsg.NewPtrAlterClientQuotasRequest()
	for _, entity := range [][]part{{user, client}, {client, user}, {user}, {client}, {{Type: "user"}}} {
		in.Entries = append(in.Entries, kmsg.AlterClientQuotasRequestEntry{Entity: entity})
	}
	require.Len(t, alterClientQuotas(nil, in).Entries, 4)

	const names, size = 300, 32_000
	in = kmsg.NewPtrAlterClientQuotasRequest()
	for i := range names {
		name := fmt.Sprintf("%06d", i) + strings.Repeat("\x00", size)
		in.Entries = append(in.Entries, kmsg.AlterClientQuotasRequestEntry{Entity: []part{{Type: "user", Name: &name}}})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	require.Len(t, alterClientQuotas(nil, in).Entries, names)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(2*names*size))
}

func TestAlterUserSCRAMCredentials(t *testing.T) {
	in := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	up := func(name string, mechanism int8, iterations int32) {
		in.Upsertions = append(in.Upsertions, kmsg.AlterUserSCRAMCredentialsRequestUpsertion{Name: name, Mechanism: mechanism, Iterations: iterations})
	}
	in.Deletions = []kmsg.AlterUserSCRAMCredentialsRequestDeletion{{Name: "gone", Mechanism: 1}, {Name: "odd", Mechanism: 7}}
	up("good", 2, 4096)
	up("few", 1, 4095)
	up("many", 1, 16385)
	up("twice", 1, 4096)
	up("twice", 1, 4096)
	up("", 1, 4096)
	out := answerOf[*kmsg.AlterUserSCRAMCredentialsResponse](t, in, 0, anonymous)
	var got []string
	for _, r := range out.Results {
		got = append(got, fmt.Sprintf("%s %d", r.User, r.ErrorCode))
	}
	require.Equal(t, []string{" 93", "few 93", "gone 91", "good 35", "many 93", "odd 33", "twice 92"}, got)
}

// TestAlterClientQuotas_EntitiesDiffer: the default of users and clients is another entity than the user "client-id".
func TestAlterClientQuotas_EntitiesDiffer(t *testing.T) {
	type part = kmsg.AlterClientQuotasRequestEntryEntity
	in := kmsg.NewPtrAlterClientQuotasRequest()
	for _, entity := range [][]part{{{Type: "user"}, {Type: "client-id"}}, {{Type: "user", Name: kmsg.StringPtr("client-id")}}} {
		in.Entries = append(in.Entries, kmsg.AlterClientQuotasRequestEntry{Entity: entity})
	}
	out := alterClientQuotas(nil, in)
	require.Len(t, out.Entries, 2)
	require.Zero(t, out.Entries[0].ErrorCode)
}
