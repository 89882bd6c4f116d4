package scale

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// The helper processes, and the command that runs them.
const (
	roleCommand   = "scale-role"
	roleProducers = "producers"
	roleClients   = "clients"
)

// RunRole is what a helper process runs: it prints the address at which it is told what to do, and works until ctx ends.
func RunRole(ctx context.Context, name, spec string, out io.Writer) error {
	switch name {
	case roleProducers:
		var p producers
		if err := json.Unmarshal([]byte(spec), &p); err != nil {
			return fmt.Errorf("decode role: %w", err)
		}
		return p.run(ctx, out)
	case roleClients:
		var c clients
		if err := json.Unmarshal([]byte(spec), &c); err != nil {
			return fmt.Errorf("decode role: %w", err)
		}
		return c.run(ctx, out)
	default:
		return fmt.Errorf("unknown benchmark role %q", name)
	}
}

// serve answers one path with what handle gives, until ctx ends. It prints its address.
func serve(ctx context.Context, out io.Writer, path string, handle func(*http.Request) (any, error)) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		answer, err := handle(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(answer) // who asked may be gone
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	fmt.Fprintln(out, l.Addr())
	if err := server.Serve(l); ctx.Err() == nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
