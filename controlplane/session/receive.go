package session

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/internal/periodic"
)

const (
	// smallMessage is the maximum size, in bytes, of a message that never waits. Until a larger one may come in, the stream has no more than
	// streamWindow bytes of it.
	smallMessage = 16 << 10
	streamWindow = 64 << 10
	// largeMessage is the size, in bytes, above which a message takes a place. Agents fill messages up to it.
	largeMessage = batchBytes + smallMessage
	// messageBytes is the memory that messages up to largeMessage share, in bytes for each of Messages.places, and shareOfMessages the part of
	// it that one virtual cluster may take.
	messageBytes    = 8 << 20
	shareOfMessages = 4
	// receiveTimeout is the time in which a message must arrive once it may. Agents give up a stream without an answer after the same time.
	receiveTimeout = 3 * time.Second
	// waitInterval is the time between two signs of life of an agent whose message waits for memory.
	waitInterval = receiveTimeout / 3
	// maxUnaryBytes is the maximum size of a message outside of streams.
	maxUnaryBytes = 64 << 10
)

// errTrickle ends the stream of an agent whose message did not arrive in time.
var errTrickle = errors.New("a message took too long to arrive")

// Messages bounds the memory of messages from agents while they arrive and are decoded, for all virtual clusters of a process. Messages beyond
// the bound wait in line, and flow control keeps their bytes at the agent. One virtual cluster has at most a share of the memory.
type Messages struct {
	places  int
	usual   *line // bytes, of messages up to largeMessage
	largest *line // places, of larger ones
}

// NewMessages returns the bounds for a process with a memory limit, in bytes. Each 512 MiB yields a place for a large message and 8 MiB for others.
// There are two to four places, so that one virtual cluster leaves one to others.
func NewMessages(memory int64) *Messages {
	places := min(max(2, memory/memoryOfPlace), maxPlaces)
	return &Messages{places: int(places), usual: newLine(places * messageBytes), largest: newLine(places)}
}

// share is the part of one virtual cluster in Messages.
type share struct{ usual, largest *part }

func (m *Messages) share() *share {
	return &share{usual: m.usual.part(int64(m.places * messageBytes / shareOfMessages)), largest: m.largest.part(1)}
}

// take waits for the memory of a message of n bytes.
func (s *share) take(ctx context.Context, n int) (give func(), err error) {
	switch {
	case n <= smallMessage:
		return func() {}, nil
	case n > largeMessage:
		return s.largest.take(ctx, 1)
	}
	return s.usual.take(ctx, int64(n))
}

// rawStream is gRPC's side of a stream. gRPC has no hook between the length of a message and its bytes, for which it opens the window at once. Its
// server streams have this method, which fills a slice of any length. Without it no stream opens, and all tests of streams fail.
type rawStream interface {
	ReadMessageHeader(into []byte) error
}

// receiver is a stream whose messages count in a share, from the first byte beyond streamWindow until the next call of Recv, or release.
type receiver struct {
	rpcStream
	raw   rawStream
	share *share
	later bool                   // the first message, with Hello, has come
	slow  func()                 // called if a message takes too long
	waits func()                 // called each waitInterval while a message waits for memory
	held  atomic.Pointer[func()] // gives back the memory of the last message
}

func newReceiver(stream rpcStream, s *share) (*receiver, error) {
	raw, ok := grpc.ServerTransportStreamFromContext(stream.Context()).(rawStream)
	if !ok {
		return nil, status.Error(codes.Internal, "unknown implementation of gRPC streams")
	}
	return &receiver{rpcStream: stream, raw: raw, share: s, slow: func() {}, waits: func() {}}, nil
}

// Recv implements grpc.BidiStreamingServer. It may be called by one goroutine at a time.
func (r *receiver) Recv() (*api.ToOwner, error) {
	r.release()
	var header [5]byte
	if err := r.raw.ReadMessageHeader(header[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(header[1:]))
	switch {
	case header[0] != 0:
		return nil, status.Error(codes.Unimplemented, "compressed messages are not taken")
	case n > maxMessageBytes:
		return nil, status.Errorf(codes.ResourceExhausted, "a message of %d bytes, the limit is %d", n, maxMessageBytes)
	}
	if !r.later && n > streamWindow { // no stream holds a place before its agent is known to have a session
		return nil, status.Errorf(codes.ResourceExhausted, "a first message of %d bytes, the limit is %d", n, streamWindow)
	}
	give, err := r.take(n)
	if err != nil {
		return nil, status.FromContextError(err).Err()
	}
	r.held.Store(&give)
	timer := time.AfterFunc(receiveTimeout, r.slow)
	body := mem.DefaultBufferPool().Get(n)
	defer mem.DefaultBufferPool().Put(body)
	err = r.raw.ReadMessageHeader(*body)
	timer.Stop()
	if err != nil {
		r.release()
		return nil, err
	}
	message := new(api.ToOwner)
	if err := proto.Unmarshal(*body, message); err != nil { // copies
		r.release()
		return nil, status.Error(codes.Internal, fmt.Sprintf("decode a message: %v", err))
	}
	return message, nil
}

// take waits for the memory of a message of n bytes. The first message needs none: the stream's window bounds its bytes.
func (r *receiver) take(n int) (give func(), err error) {
	if !r.later {
		r.later = true
		return func() {}, nil
	}
	if n <= smallMessage {
		return func() {}, nil
	}
	ctx, cancel := context.WithCancel(r.Context())
	var signs periodic.Loop
	signs.Start(ctx, waitInterval, func(context.Context) time.Duration {
		r.waits()
		return waitInterval
	})
	defer signs.Wait()
	defer cancel()
	return r.share.take(ctx, n)
}

// release gives back the memory of the last message.
func (r *receiver) release() {
	if give := r.held.Swap(nil); give != nil {
		(*give)()
	}
}
