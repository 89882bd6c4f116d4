package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/controlplane/client"
)

// stampTimeout bounds the wait for a request's stamp, from its arrival. It is part of what keeps late requests out
// (view.Stamp): it is well below the time after which a client gives a request up and goes on without it.
const stampTimeout = 2 * time.Second

// lastStamped is the last version, by API key, of the first transaction protocol: requests up to it say how new they
// are. In the second one the epoch does (KIP-890).
var lastStamped = map[int16]int16{
	int16(kmsg.AddPartitionsToTxn): 3,
	int16(kmsg.AddOffsetsToTxn):    4,
	int16(kmsg.EndTxn):             4,
	int16(kmsg.TxnOffsetCommit):    4,
}

// askStamp asks how new a request is. cancel gives up what the wait holds.
func askStamp(ctx context.Context, p view.Prober, req *edge.Request) (s *view.Stamp, cancel context.CancelFunc) {
	ctx, cancel = context.WithDeadline(ctx, req.Arrived.Add(stampTimeout))
	return view.AskStamp(ctx, p), cancel
}

// forwardFunc hands a request to the owner, as Forwarder.Forward does.
type forwardFunc func(context.Context, client.Forward) ([]byte, error)

// stamped forwards a request with its stamp if it is one that needs it. It is asked for here and now, so the returned
// function is to be had before the request waits for anything.
func (f *forwarded) stamped(ctx context.Context, req *edge.Request) forwardFunc {
	if last, ok := lastStamped[req.Key]; !ok || req.Version > last {
		return f.to.Forward
	}
	stamp, cancel := askStamp(ctx, f.prober, req)
	return func(ctx context.Context, out client.Forward) ([]byte, error) {
		defer cancel()
		<-stamp.Done()
		if out.AsOf = stamp.Index(); out.AsOf == 0 {
			return nil, client.ErrUnavailable
		}
		return f.to.Forward(ctx, out)
	}
}
