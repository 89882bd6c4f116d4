package session

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/keys"
)

// Server is the gRPC service that agents talk to. It finds the Cluster a call is for.
type Server struct {
	api.UnimplementedControlPlaneServer
	find func(name string) (*Cluster, error)
}

// NewServer returns a Server of the virtual clusters that find returns by name. find returns ErrNotServed, or the reason for which a virtual
// cluster is not served now. Agents wait with the latter.
func NewServer(find func(name string) (*Cluster, error)) *Server { return &Server{find: find} }

// ErrNotServed is returned for a name that is no virtual cluster's, or that the key does not open.
var ErrNotServed = errors.New("is not served for this key")

// Bounds of one gRPC connection. An agent has one stream, and a few short calls beside it.
const (
	maxStreams     = 64
	maxHeaderBytes = 16 << 10
	// maxConnectionIdle is the time without a call after which a connection is closed. Agents close theirs earlier. For each connection, gRPC has a
	// timer of this time and one of pingAfter. Each expiry wakes a processor, mostly for nothing, so both times are long.
	maxConnectionIdle = 2 * time.Minute
	// pingAfter is the time without a byte from the agent after which a connection is probed. Streams end earlier, since agents probe and silent
	// sessions are closed.
	pingAfter = 5 * time.Minute
)

// ServerOptions are the gRPC options of a server for agents: authentication, bounds, keepalive and buffers. secure is
// nil for no TLS.
func ServerOptions(set *keys.Set, secure *tls.Config, log *zap.Logger) []grpc.ServerOption {
	kept := newStrangers(log)
	transport := insecure.NewCredentials()
	if secure != nil {
		transport = credentials.NewTLS(secure)
	}
	return []grpc.ServerOption{
		grpc.Creds(handshakes{transport, kept}),
		grpc.InTapHandle(kept.tap(set)),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.MaxRecvMsgSize(maxUnaryBytes), // streams have a receiver
		grpc.MaxSendMsgSize(maxMessageBytes),
		// The default, 32 KiB for each connection, is a third of the memory of a replica with idle agents. Large messages go by the buffer.
		grpc.ReadBufferSize(4 << 10),
		grpc.InitialWindowSize(streamWindow),
		grpc.InitialConnWindowSize(8 << 20),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: maxConnectionIdle, Time: pingAfter, Timeout: 3 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.ConnectionTimeout(10 * time.Second),
	}
}

// cluster returns the virtual cluster of a call. name is "" for the one that the call's key opens. The error names the virtual cluster.
func (s *Server) cluster(ctx context.Context, name string) (*Cluster, error) {
	opens, ok := opened(ctx, name)
	if !ok {
		return nil, fmt.Errorf("virtual cluster %q %w", name, ErrNotServed)
	}
	c, err := s.find(opens)
	if err != nil {
		return nil, fmt.Errorf("virtual cluster %q %w", opens, err)
	}
	return c, nil
}

// Locate implements the service.
func (s *Server) Locate(ctx context.Context, request *api.LocateRequest) (*api.LocateResponse, error) {
	c, err := s.cluster(ctx, request.VirtualCluster)
	switch {
	case errors.Is(err, ErrNotServed):
		return nil, status.Error(codes.PermissionDenied, err.Error())
	case err != nil:
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	leave, err := c.callers.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	response := &api.LocateResponse{Replicas: c.cfg.Locator.Replicas()}
	replica, address, err := c.cfg.Locator.Owner(ctx)
	if err != nil {
		return nil, status.Errorf(codes.Unavailable, "find the owner: %v", err)
	}
	response.OwnerReplica, response.OwnerAddress = replica, address
	return response, nil
}

// Session implements the service: it refuses, or hands the stream to the tenure and stays until it ends.
func (s *Server) Session(stream grpc.BidiStreamingServer[api.ToOwner, api.ToAgent]) error {
	of, err := s.cluster(stream.Context(), "")
	if err != nil { // without a wait for Hello: the bounds of calls are those of a virtual cluster that is served
		return refuseNotServed(stream, err)
	}
	leave, err := of.callers.enter(stream.Context())
	if err != nil {
		return err
	}
	defer leave()
	r, err := newReceiver(stream, of.messages)
	if err != nil {
		return err
	}
	defer r.release()
	stream = r
	hello, rest, err := receiveHello(stream)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	c, err := s.cluster(stream.Context(), hello.VirtualCluster)
	if err != nil {
		return refuseNotServed(stream, err)
	}
	t := c.tenure.Load()
	if t == nil {
		return refuse(stream, api.Refused_NOT_OWNER, "this replica is not the owner")
	}
	return t.converse(stream, hello, rest)
}

// refuseNotServed refuses a stream for a virtual cluster that this replica does not serve, or not yet.
func refuseNotServed(stream grpc.BidiStreamingServer[api.ToOwner, api.ToAgent], err error) error {
	if errors.Is(err, ErrNotServed) {
		return refuse(stream, api.Refused_INVALID, err.Error())
	}
	return refuse(stream, api.Refused_NOT_OWNER, err.Error())
}

func refuse(stream grpc.BidiStreamingServer[api.ToOwner, api.ToAgent], reason api.Refused_Reason, message string) error {
	return stream.Send(&api.ToAgent{Items: []*api.OwnerItem{refusedItem(reason, message)}})
}

var errNoHello = errors.New("the stream did not begin with a hello")

// receiveHello takes the first message; rest is what came with it.
func receiveHello(stream grpc.BidiStreamingServer[api.ToOwner, api.ToAgent]) (hello *api.Hello, rest []*api.AgentItem, err error) {
	type received struct {
		message *api.ToOwner
		err     error
	}
	first := make(chan received, 1)
	go func() { // ends with the stream at the latest
		m, err := stream.Recv()
		first <- received{m, err}
	}()
	timer := time.NewTimer(helloTimeout)
	defer timer.Stop()
	select {
	case r := <-first:
		if r.err != nil {
			return nil, nil, r.err
		}
		if len(r.message.Items) == 0 || r.message.Items[0].GetHello() == nil {
			return nil, nil, errNoHello
		}
		return r.message.Items[0].GetHello(), r.message.Items[1:], nil
	case <-timer.C:
		return nil, nil, errNoHello
	}
}
