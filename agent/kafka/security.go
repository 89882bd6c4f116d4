package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
)

// NewSecurity gives the APIs of authentication, authorization and quotas: SaslHandshake, SaslAuthenticate, ACLs,
// delegation tokens, SCRAM users and client quotas. None of these is configured in this release, so the agent answers
// by itself what a Kafka broker without them does.
func NewSecurity() []API {
	return []API{
		fixed(saslHandshake), fixed(saslAuthenticate),
		fixed(describeACLs), fixed(createACLs), fixed(deleteACLs),
		fixed(createDelegationToken), fixed(renewDelegationToken), fixed(expireDelegationToken), fixed(describeDelegationToken),
		fixed(describeClientQuotas), fixed(alterClientQuotas),
		fixed(describeUserSCRAMCredentials), fixed(alterUserSCRAMCredentials),
	}
}

// request is a kmsg request by its pointer type.
type request[T any] interface {
	*T
	kmsg.Request
}

// fixedAPI answers from the request alone.
type fixedAPI[T any, In request[T]] struct {
	answer func(*edge.Client, In) kmsg.Response
}

func fixed[T any, In request[T], Out kmsg.Response](answer func(*edge.Client, In) Out) API {
	return fixedAPI[T, In]{func(c *edge.Client, in In) kmsg.Response { return answer(c, in) }}
}

func (fixedAPI[T, In]) Key() int16 { return In(new(T)).Key() }

func (f fixedAPI[T, In]) Start(_ context.Context, req *edge.Request) func() edge.Reply {
	in := In(new(T))
	if err := Decode(req, in); err != nil {
		return Malformed(req, err)
	}
	return Ready(Answer(req, f.answer(req.Client, in)))
}
