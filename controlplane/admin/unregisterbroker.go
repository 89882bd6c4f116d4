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
// The agent that has the node is taken out of what Metadata shows, as one that stops, until it is started again: what
// Kafka's controller does to a broker that still runs. One that is gone leaves by itself, with its session.

func (c *call) unregisterBroker(ctx context.Context, in *kmsg.UnregisterBrokerRequest) (*kmsg.UnregisterBrokerResponse, error) {
	out := kmsg.NewPtrUnregisterBrokerResponse()
	var member metadata.SessionInfo
	found := false
	if _, err := c.owner.Read(func(s *metadata.State) { member, found = memberOf(s, in.BrokerID) }); err != nil {
		return nil, err
	}
	if !found {
		fault := failed(kerr.BrokerIDNotRegistered, fmt.Sprintf("Broker ID %d is not currently registered", in.BrokerID))
		out.ErrorCode, out.ErrorMessage = fault.code(), fault.text()
		return out, nil
	}
	_, err := c.propose(ctx, &metadata.DrainSession{Session: member.ID})
	return out, err
}
