package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/agent/view"
)

// Key types: 0 is a group, 1 a transactional ID. Share groups (2) are not served.
const (
	transactionKey     = 1
	maxCoordinatorKind = transactionKey
)

// FindCoordinator is key 10, versions 0-6. Every agent forwards coordinator requests to the same owner, so any of the
// client's zone would do; the key picks one, to spread them.
//
//	1 adds the key type, the throttle time and error messages
//	3 is flexible
//	4 asks for many keys at once (KIP-699)
//	6 adds share groups
type FindCoordinator struct {
	catalogue *view.Catalogue
	views     *Views
}

// NewFindCoordinator builds the FindCoordinator API.
func NewFindCoordinator(catalogue *view.Catalogue, views *Views) *FindCoordinator {
	return &FindCoordinator{catalogue: catalogue, views: views}
}

// Key is the API's.
func (*FindCoordinator) Key() int16 { return int16(kmsg.FindCoordinator) }

// Start implements API.
func (f *FindCoordinator) Start(_ context.Context, req *edge.Request) func() edge.Reply {
	in := kmsg.NewPtrFindCoordinatorRequest()
	if err := Decode(req, in); err != nil {
		return Malformed(req, err)
	}
	zone := f.views.of(f.catalogue.Load(), req)
	out := kmsg.NewPtrFindCoordinatorResponse()
	out.Coordinators = []kmsg.FindCoordinatorResponseCoordinator{}
	if req.Version < 4 {
		c := coordinator(zone, in.CoordinatorType, in.CoordinatorKey)
		out.ErrorCode, out.ErrorMessage = c.ErrorCode, c.ErrorMessage
		out.NodeID, out.Host, out.Port = c.NodeID, c.Host, c.Port
		return Ready(Answer(req, out))
	}
	for _, key := range in.CoordinatorKeys {
		out.Coordinators = append(out.Coordinators, coordinator(zone, in.CoordinatorType, key))
	}
	return Ready(Answer(req, out))
}

func coordinator(zone *zoneView, kind int8, key string) kmsg.FindCoordinatorResponseCoordinator {
	c := kmsg.NewFindCoordinatorResponseCoordinator()
	c.Key, c.NodeID, c.Port = key, -1, -1
	if kind < 0 || kind > maxCoordinatorKind {
		c.ErrorCode, c.ErrorMessage = kerr.InvalidRequest.Code, kmsg.StringPtr("Unknown coordinator type.")
		return c
	}
	n, ok := zone.nodes.Own.Coordinator(kind, key)
	if !ok {
		c.ErrorCode, c.ErrorMessage = kerr.CoordinatorNotAvailable.Code, kmsg.StringPtr("No agent is known yet.")
		return c
	}
	c.NodeID, c.Host, c.Port = n.ID, n.Host, n.Port
	return c
}
