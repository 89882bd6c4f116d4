package cluster

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/bench/cost"
	"github.com/freshet-io/freshet/internal/etcdserver"
	"github.com/freshet-io/freshet/objstore/file"
	"github.com/freshet-io/freshet/objstore/marker"
)

// The helper processes, and the command that runs them.
const (
	roleCommand = "cluster-role"
	roleEtcd    = "etcd"
	roleStore   = "store"
)

const etcdQuota = 4 << 30 // bytes

// etcdRole is one member of etcd, with its data in Dir.
type etcdRole struct {
	Dir string `json:"dir"`
}

// RunRole is what a helper process runs: it prints its address as one line and serves until ctx ends.
func RunRole(ctx context.Context, name, spec string, out io.Writer) error {
	switch name {
	case roleEtcd:
		return runEtcd(ctx, spec, out)
	case roleStore:
		return runStore(ctx, spec, out)
	default:
		return fmt.Errorf("unknown benchmark role %q", name)
	}
}

func runEtcd(ctx context.Context, spec string, out io.Writer) error {
	var role etcdRole
	if err := json.Unmarshal([]byte(spec), &role); err != nil {
		return fmt.Errorf("decode role: %w", err)
	}
	etcd, err := etcdserver.Start(ctx, etcdserver.Config{Dir: role.Dir, QuotaBytes: etcdQuota}, zap.NewNop())
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for etcd clients: %w", err)
	}
	fmt.Fprintln(out, l.Addr())
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	go etcd.Serve(l) //nolint:errcheck // ends with the listener, and Run ends with the member
	return etcd.Run(ctx)
}

// storeRole is an endpoint that forgets bundles. It serves the cluster id that the control plane writes into Objects, its directory.
type storeRole struct {
	Objects string `json:"objects"`
}

func runStore(ctx context.Context, spec string, out io.Writer) error {
	var role storeRole
	if err := json.Unmarshal([]byte(spec), &role); err != nil {
		return fmt.Errorf("decode role: %w", err)
	}
	objects, err := file.Open(role.Objects)
	if err != nil {
		return fmt.Errorf("open bucket: %w", err)
	}
	defer objects.Close()
	mux := http.NewServeMux()
	mux.Handle("/", cost.NewNullS3())
	mux.HandleFunc("GET /"+bucketName+"/"+marker.Key(name), func(w http.ResponseWriter, r *http.Request) {
		object, err := objects.Get(r.Context(), marker.Key(name), 0, -1)
		if err != nil {
			http.Error(w, xml.Header+`<Error><Code>NoSuchKey</Code></Error>`, http.StatusNotFound)
			return
		}
		defer object.Close() // it was read
		_, _ = io.Copy(w, object)
	})
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	fmt.Fprintln(out, l.Addr())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.Serve(l); ctx.Err() == nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
