package kafka

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
)

// SaslHandshake, key 17, versions 0-1, and SaslAuthenticate, key 36, versions 0-2 (2 is flexible). No listener wants
// SASL: a handshake on one without it is out of place (KafkaApis.handleSaslHandshakeRequest).

func saslHandshake(*edge.Client, *kmsg.SASLHandshakeRequest) *kmsg.SASLHandshakeResponse {
	out := kmsg.NewPtrSASLHandshakeResponse()
	out.ErrorCode = kerr.IllegalSaslState.Code
	return out
}

func saslAuthenticate(*edge.Client, *kmsg.SASLAuthenticateRequest) *kmsg.SASLAuthenticateResponse {
	out := kmsg.NewPtrSASLAuthenticateResponse()
	out.ErrorCode = kerr.IllegalSaslState.Code
	out.ErrorMessage = kmsg.StringPtr("SaslAuthenticate request received after successful authentication")
	return out
}
