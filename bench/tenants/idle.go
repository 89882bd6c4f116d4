package tenants

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/internal/wait"
)

const (
	heartbeatInterval = 3 * time.Second // the default of Kafka's clients
	requestLimit      = time.Minute     // of one group request
	joiners           = 32              // streams that are opened at once

	// The last versions of the group requests with the old headers.
	groupVersion = 3
)

// idle is the agent's stream of one idle virtual cluster, with one member of one group.
type idle struct {
	name       string
	session    *client.Session
	member     string
	generation int32
	welcomed   atomic.Int64 // Unix nanoseconds of the newest Welcome
	faults     atomic.Int64 // heartbeats that the group refused
}

// idles are all idle virtual clusters.
type idles struct {
	all  []*idle
	runs sync.WaitGroup
	stop context.CancelFunc
}

// connect opens a stream for each virtual cluster, by name with its cluster id, and has a member join a group. Streams stay until close.
func connect(ctx context.Context, controlPlane []string, ids map[string]string) (*idles, error) {
	ctx, stop := context.WithCancel(ctx)
	is := &idles{stop: stop}
	group, joining := errgroup.WithContext(ctx)
	group.SetLimit(joiners)
	for name, clusterID := range ids {
		port := int32(10_000 + len(is.all))
		one := &idle{name: name}
		is.all = append(is.all, one)
		group.Go(func() (err error) {
			one.session, err = client.New(client.Config{
				Replicas: controlPlane, VirtualCluster: name, AgentKey: agentKey(name), Zone: "a", Version: "bench",
				Endpoints: []*api.Endpoint{{Host: "127.0.0.1", Port: port}},
				Roles:     []api.Role{api.Role_ROLE_PRODUCE, api.Role_ROLE_FETCH}, Handler: one, Load: func() *api.Load { return &api.Load{} },
				Marker: func() *api.BucketMarker { return &api.BucketMarker{ClusterId: clusterID} }, // no bucket is behind it
			})
			if err != nil {
				return err
			}
			is.runs.Go(func() { _ = one.session.Run(ctx) }) // a stream that ends shows in awaitOwned
			for err = one.join(joining); errors.Is(err, errJoin) && joining.Err() == nil; err = one.join(joining) {
				_ = wait.For(joining, poll) // for the next owner
			}
			if err != nil {
				return fmt.Errorf("virtual cluster %s: %w", name, err)
			}
			is.runs.Go(func() { one.poll(ctx) })
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		is.close()
		return nil, err
	}
	return is, nil
}

func (is *idles) close() {
	is.stop()
	is.runs.Wait()
}

// awaitOwned waits until every stream has an owner. It returns the time from since to the newest Welcome.
func (is *idles) awaitOwned(ctx context.Context, since time.Time) (time.Duration, error) {
	for {
		newest, connected := since.UnixNano(), 0
		for _, one := range is.all {
			newest = max(newest, one.welcomed.Load())
			if one.session.Connected() {
				connected++
			}
		}
		if connected == len(is.all) {
			return time.Duration(newest - since.UnixNano()), nil
		}
		if err := wait.For(ctx, poll); err != nil {
			return 0, fmt.Errorf("%d of %d idle virtual clusters have an owner: %w", connected, len(is.all), err)
		}
	}
}

// faults returns the heartbeats that groups refused.
func (is *idles) faults() (n int64) {
	for _, one := range is.all {
		n += one.faults.Load()
	}
	return n
}

// forward sends a group request as an agent does for a client.
func (one *idle) forward(ctx context.Context, req kmsg.Request, resp kmsg.Response, waits bool) error {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	req.SetVersion(groupVersion)
	resp.SetVersion(groupVersion)
	body, err := one.session.Forward(ctx, client.Forward{
		Key: req.Key(), Version: groupVersion, Body: req.AppendTo(nil), Principal: "User:ANONYMOUS", ClientID: "bench", Host: "127.0.0.1",
		Zone: "a", ZoneKnown: true, Connection: 1, Waits: waits,
	})
	if err != nil {
		return err
	}
	return resp.ReadFrom(body)
}

// errJoin is returned by join if the group refuses the member.
var errJoin = errors.New("join group")

func (one *idle) join(ctx context.Context) error {
	req, resp := kmsg.NewPtrJoinGroupRequest(), kmsg.NewPtrJoinGroupResponse()
	req.Group, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = "group", "consumer", 300_000, 60_000
	subscription := kmsg.NewConsumerMemberMetadata()
	subscription.Topics = []string{"topic"}
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: subscription.AppendTo(nil)}}
	if err := one.forward(ctx, req, resp, true); err != nil {
		return fmt.Errorf("join group: %w", err)
	}
	one.member, one.generation = resp.MemberID, resp.Generation
	sync, synced := kmsg.NewPtrSyncGroupRequest(), kmsg.NewPtrSyncGroupResponse()
	sync.Group, sync.MemberID, sync.Generation = req.Group, one.member, one.generation
	sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: one.member, MemberAssignment: make([]byte, 32)}}
	if err := one.forward(ctx, sync, synced, true); err != nil {
		return fmt.Errorf("sync group: %w", err)
	}
	if resp.ErrorCode != 0 || synced.ErrorCode != 0 {
		return fmt.Errorf("%w: errors %d and %d", errJoin, resp.ErrorCode, synced.ErrorCode)
	}
	return nil
}

// poll sends heartbeats until ctx ends.
func (one *idle) poll(ctx context.Context) {
	if wait.For(ctx, rand.N(heartbeatInterval)) != nil {
		return
	}
	for wait.For(ctx, heartbeatInterval) == nil {
		req, resp := kmsg.NewPtrHeartbeatRequest(), kmsg.NewPtrHeartbeatResponse()
		req.Group, req.MemberID, req.Generation = "group", one.member, one.generation
		if err := one.forward(ctx, req, resp, false); ctx.Err() == nil && (err != nil || resp.ErrorCode != 0) {
			one.faults.Add(1)
		}
	}
}

// OnWelcome implements client.Handler.
func (one *idle) OnWelcome(*api.Welcome) { one.welcomed.Store(time.Now().UnixNano()) }

// OnCatalogue implements client.Handler.
func (one *idle) OnCatalogue(*api.Catalogue) {}

// OnNotice implements client.Handler.
func (one *idle) OnNotice(*api.Notice) {}

// OnDisconnect implements client.Handler.
func (one *idle) OnDisconnect() {}

// OnSessionClosed implements client.Handler.
func (one *idle) OnSessionClosed() {}
