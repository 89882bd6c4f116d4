package kafka

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
)

const (
	// joinSlack is how long a JoinGroup is waited for beyond its rebalance time-out: less than the 5 s that the Java
	// client waits beyond it.
	joinSlack = 3 * time.Second
	// maxJoinWait bounds what a client may ask to be waited for.
	maxJoinWait = 30 * time.Minute
)

// waitsForOthers tells whether an API's answers wait for what other members of a group do.
func waitsForOthers(key int16) bool {
	return key == int16(kmsg.JoinGroup) || key == int16(kmsg.SyncGroup)
}

// timeoutOf is how long a request waits for its answer. A JoinGroup waits for the other members: as long as these may
// take to rejoin, which is what its rebalance time-out says (before version 1: its session time-out).
func (f *forwarded) timeoutOf(req *edge.Request) time.Duration {
	if req.Key != int16(kmsg.JoinGroup) {
		return forwardTimeout
	}
	in := kmsg.NewPtrJoinGroupRequest()
	if Decode(req, in) != nil {
		return forwardTimeout
	}
	ms := in.RebalanceTimeoutMillis
	if req.Version == 0 {
		ms = in.SessionTimeoutMillis
	}
	return max(forwardTimeout, min(time.Duration(ms)*time.Millisecond+joinSlack, maxJoinWait))
}
