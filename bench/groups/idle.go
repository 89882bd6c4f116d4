package groups

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/bench/wire"
)

// idleRole opens connections, asks on each what a client asks first, prints "connected" and leaves them alone until it
// is stopped.
type idleRole struct {
	Address     string `json:"address"`
	Connections int    `json:"connections"`
}

func runIdleRole(ctx context.Context, spec string, out io.Writer) error {
	var role idleRole
	if err := json.Unmarshal([]byte(spec), &role); err != nil {
		return fmt.Errorf("decode role: %w", err)
	}
	wires := make([]*wire.Conn, 0, role.Connections)
	for range role.Connections {
		w, err := wire.Dial(ctx, role.Address)
		if err != nil {
			return err
		}
		defer w.Close()
		wires = append(wires, w)
		if err := greet(w); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "connected")
	<-ctx.Done()
	return countClosed(wires, out)
}

// greet asks for the versions and the cluster's metadata, as clients do before they fall idle.
func greet(w *wire.Conn) error {
	versions := kmsg.NewPtrApiVersionsRequest()
	versions.Version = 2
	if err := w.Ask(versions, kmsg.NewPtrApiVersionsResponse()); err != nil {
		return err
	}
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Version = 8
	metadata.Topics = []kmsg.MetadataRequestTopic{}
	return w.Ask(metadata, kmsg.NewPtrMetadataResponse())
}

// countClosed says how many connections the agent closed meanwhile.
func countClosed(wires []*wire.Conn, out io.Writer) error {
	closed := 0
	for _, w := range wires {
		if err := w.SetReadDeadline(longAgo); err != nil {
			return fmt.Errorf("set deadline: %w", err)
		}
		var timeout net.Error
		if _, err := w.Read(make([]byte, 1)); !errors.As(err, &timeout) || !timeout.Timeout() {
			closed++
		}
	}
	fmt.Fprintln(out, closed)
	return nil
}
