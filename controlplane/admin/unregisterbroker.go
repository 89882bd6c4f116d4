package admin

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/metadata"
)

// UnregisterBroker, key 64, version 0 (KIP-631).
//
// It is for brokers that are gone for good. Here they leave by themselves, with their sessions, so there is nothing to
// unregister: a node that is known is one of an agent that runs. Kafka's controller takes such a broker out as well, and
// it stays in limbo until somebody restarts it; here the request, which any client may send, could take all agents away
// from clients while they serve them. So it is refused.

func (c *call) unregisterBroker(_ context.Context, in *kmsg.UnregisterBrokerRequest) (*kmsg.UnregisterBrokerResponse, error) {
	found := false
	if _, err := c.owner.Read(func(s *metadata.State) { _, found = memberOf(s, in.BrokerID) }); err != nil {
		return nil, err
	}
	fault := failed(kerr.BrokerIDNotRegistered, fmt.Sprintf("Broker ID %d is not currently registered", in.BrokerID))
	if found {
		fault = failed(kerr.InvalidRequest, fmt.Sprintf("Broker ID %d is an agent that runs: it leaves when it is stopped.", in.BrokerID))
	}
	out := kmsg.NewPtrUnregisterBrokerResponse()
	out.ErrorCode, out.ErrorMessage = fault.code(), fault.text()
	return out, nil
}
