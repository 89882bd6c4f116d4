package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// brokerLimit bounds how long an agent may take to answer after its start, on a busy small machine.
	brokerLimit = 60 * time.Second
	brokerPoll  = 50 * time.Millisecond
)

// FreeAddresses gives loopback addresses that nobody listens on at the moment, for programs that must be told theirs.
func FreeAddresses(n int) (addresses []string, err error) {
	listeners := make([]net.Listener, 0, n)
	defer func() {
		for _, l := range listeners {
			err = errors.Join(err, l.Close())
		}
	}()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		listeners = append(listeners, l)
		addresses = append(addresses, l.Addr().String())
	}
	return addresses, nil
}

// AwaitBroker waits until an agent that was started answers the client of these options.
func AwaitBroker(ctx context.Context, options ...kgo.Opt) error {
	ctx, cancel := context.WithTimeoutCause(ctx, brokerLimit, errors.New("the agent did not get ready"))
	defer cancel()
	client, err := kgo.NewClient(options...)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	defer client.Close()
	tick := time.NewTicker(brokerPoll)
	defer tick.Stop()
	for client.Ping(ctx) != nil {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
	return nil
}
