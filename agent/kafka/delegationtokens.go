package kafka

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
)

// CreateDelegationToken, key 38, versions 1-3; RenewDelegationToken and ExpireDelegationToken, keys 39 and 40,
// versions 1-2; DescribeDelegationToken, key 41, versions 1-3. Version 2 is flexible in all; 3 tells owner and
// requester apart (KIP-373).
//
// Tokens need a client that authenticated and a broker with a secret key; there are neither
// (KafkaApis.allowTokenRequests).

const anonymous = "User:ANONYMOUS"

// noTokens is why a client gets no token.
func noTokens(c *edge.Client) int16 {
	if c.Principal == anonymous {
		return kerr.DelegationTokenRequestNotAllowed.Code
	}
	return kerr.DelegationTokenAuthDisabled.Code
}

func createDelegationToken(c *edge.Client, in *kmsg.CreateDelegationTokenRequest) *kmsg.CreateDelegationTokenResponse {
	out := kmsg.NewPtrCreateDelegationTokenResponse()
	out.ErrorCode = noTokens(c)
	kind, name, _ := strings.Cut(c.Principal, ":")
	out.TokenRequesterPrincipalType, out.TokenRequesterPrincipalName = kind, name
	if in.OwnerPrincipalType != nil && in.OwnerPrincipalName != nil && *in.OwnerPrincipalName != "" {
		kind, name = *in.OwnerPrincipalType, *in.OwnerPrincipalName
	}
	out.PrincipalType, out.PrincipalName = kind, name
	out.IssueTimestamp, out.ExpiryTimestamp, out.MaxTimestamp = -1, -1, -1
	return out
}

func renewDelegationToken(c *edge.Client, _ *kmsg.RenewDelegationTokenRequest) *kmsg.RenewDelegationTokenResponse {
	out := kmsg.NewPtrRenewDelegationTokenResponse()
	out.ErrorCode, out.ExpiryTimestamp = noTokens(c), -1
	return out
}

func expireDelegationToken(c *edge.Client, _ *kmsg.ExpireDelegationTokenRequest) *kmsg.ExpireDelegationTokenResponse {
	out := kmsg.NewPtrExpireDelegationTokenResponse()
	out.ErrorCode, out.ExpiryTimestamp = noTokens(c), -1
	return out
}

func describeDelegationToken(c *edge.Client, _ *kmsg.DescribeDelegationTokenRequest) *kmsg.DescribeDelegationTokenResponse {
	out := kmsg.NewPtrDescribeDelegationTokenResponse()
	out.ErrorCode = noTokens(c)
	return out
}
