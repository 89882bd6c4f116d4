package cost

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// The names of the processes of a run, beside the agent, and the command that runs them.
const (
	roleCommand = "cost-role"
	roleFloor   = "floor"
	roleNullS3  = "null-s3"
	roleControl = "control-plane"
	roleLoad    = "load"
)

// floorRole and nullRole configure the servers; a load is configured by Load.
type floorRole struct {
	Endpoint string      `json:"endpoint"`
	Cert     certificate `json:"cert"`
}

type nullRole struct {
	Cert certificate `json:"cert"`
}

// RunRole is what a helper process runs: it prints its address as one line and serves, or does its load and prints
// the result as one line of JSON.
func RunRole(ctx context.Context, name, spec string, out io.Writer) error {
	switch name {
	case roleFloor:
		return runFloorRole(ctx, spec, out)
	case roleNullS3:
		return runNullRole(ctx, spec, out)
	case roleControl:
		return runControlRole(ctx, spec, out)
	case roleLoad:
		return runLoadRole(ctx, spec, out)
	default:
		return fmt.Errorf("unknown benchmark role %q", name)
	}
}

func runFloorRole(ctx context.Context, spec string, out io.Writer) error {
	var role floorRole
	if err := json.Unmarshal([]byte(spec), &role); err != nil {
		return fmt.Errorf("decode role: %w", err)
	}
	tlsConfig, err := role.Cert.serverTLS()
	if err != nil {
		return err
	}
	endpoint, err := url.Parse(role.Endpoint)
	if err != nil {
		return fmt.Errorf("endpoint: %w", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	fmt.Fprintln(out, l.Addr())
	return NewFloor(endpoint, tlsConfig).Serve(ctx, l)
}

func runNullRole(ctx context.Context, spec string, out io.Writer) error {
	var role nullRole
	if err := json.Unmarshal([]byte(spec), &role); err != nil {
		return fmt.Errorf("decode role: %w", err)
	}
	tlsConfig, err := role.Cert.serverTLS()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	fmt.Fprintln(out, l.Addr())
	if tlsConfig != nil {
		l = tls.NewListener(l, tlsConfig)
	}
	server := &http.Server{Handler: NewNullS3(), ReadHeaderTimeout: time.Minute}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.Serve(l); ctx.Err() == nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

func runLoadRole(ctx context.Context, spec string, out io.Writer) error {
	var load Load
	if err := json.Unmarshal([]byte(spec), &load); err != nil {
		return fmt.Errorf("decode load: %w", err)
	}
	result, err := load.Run(ctx)
	if err != nil {
		return fmt.Errorf("%s load: %w", load.Kind, err)
	}
	return json.NewEncoder(out).Encode(result)
}
