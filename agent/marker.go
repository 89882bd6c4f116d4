package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/marker"
	"github.com/freshet-io/freshet/objstore/open"
)

// Bounds of comparing the bucket's marker with the control plane's cluster id.
const (
	markerTimeout = 3 * time.Second        // of one read
	markerPause   = 500 * time.Millisecond // between two
	// markerPatience is how long a marker may be missing after the control plane let the agent in.
	markerPatience = 30 * time.Second
)

// errNotCompared is the fault of an agent that has not compared its bucket with the control plane yet.
var errNotCompared = errors.New("the bucket's cluster id has not been compared with the control plane's yet")

// ownership finds out whether the agent's bucket belongs to its virtual cluster. Nothing is written to the bucket before it
// does: writes wait at the gate.
type ownership struct {
	bucket         objstore.Bucket // below the gate
	location       string          // of the bucket, for people
	virtualCluster string
	gate           *marker.Gate
	log            *zap.Logger
	read           chan struct{} // closed when the marker was looked for once
	changed        chan struct{} // holds one item after a Welcome

	mu struct {
		sync.Mutex
		found    *marker.Marker // in the bucket, with an empty id if there is none; nil: not read
		expected string         // the control plane's cluster id, "" before the first Welcome
	}
}

func newOwnership(bucket objstore.Bucket, cfg *Config) *ownership {
	return &ownership{
		bucket: bucket, location: open.Redact(cfg.BucketURL), virtualCluster: cfg.VirtualCluster, gate: marker.NewGate(bucket),
		log: cfg.Log.Named("store"), read: make(chan struct{}), changed: make(chan struct{}, 1),
	}
}

// hello returns what the agent tells the owner about its bucket, nil if there is nothing to tell.
func (o *ownership) hello() *api.BucketMarker {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.found == nil {
		return nil
	}
	return &api.BucketMarker{ClusterId: o.mu.found.ClusterID}
}

// onWelcome notes the control plane's cluster id.
func (o *ownership) onWelcome(w *api.Welcome) {
	o.mu.Lock()
	o.mu.expected = w.GetClusterId()
	o.mu.Unlock()
	select {
	case o.changed <- struct{}{}:
	default:
	}
}

// ready returns nil once the bucket was found to be the virtual cluster's.
func (o *ownership) ready() error {
	select {
	case <-o.gate.Opened():
		return nil
	default:
		return errNotCompared
	}
}

// run compares until ctx ends. works is closed when the store can be used. An error says that the bucket is a wrong one.
func (o *ownership) run(ctx context.Context, works <-chan struct{}) error {
	select {
	case <-works:
	case <-ctx.Done():
		return nil
	}
	var missing time.Time
	for {
		settled, err := o.compare(ctx, &missing)
		if err != nil {
			return err
		}
		var again <-chan time.Time
		if !settled {
			again = time.After(markerPause)
		}
		select {
		case <-again:
		case <-o.changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// compare reads the marker and compares it with what the control plane said. settled reports whether only another Welcome can
// change the outcome. missing is when the marker was first missed.
func (o *ownership) compare(ctx context.Context, missing *time.Time) (settled bool, err error) {
	if err := o.look(ctx); err != nil {
		if ctx.Err() == nil && !errors.Is(err, marker.ErrMalformed) {
			o.log.Info("cluster id in the bucket cannot be read, trying again", zap.Duration("again_in", markerPause), zap.Error(err))
			return false, nil
		}
		return true, o.malformed(ctx, err)
	}
	o.mu.Lock()
	found, expected := *o.mu.found, o.mu.expected
	o.mu.Unlock()
	switch {
	case found.MovedTo != "":
		return true, o.wrong(expected, found)
	case expected == "":
		return found.ClusterID != "", nil
	case found.ClusterID == expected:
		o.gate.Open()
		return true, nil
	case found.ClusterID != "":
		return true, o.wrong(expected, found)
	case missing.IsZero():
		*missing = time.Now()
	case time.Since(*missing) > markerPatience:
		return true, o.wrong(expected, found)
	}
	return false, nil
}

// look reads the marker. Who may not list a bucket is refused an object that is not there, so a refusal counts as none: the
// store is known to work.
func (o *ownership) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, markerTimeout)
	defer cancel()
	found, err := marker.Read(ctx, o.bucket, o.virtualCluster)
	if errors.Is(err, objstore.ErrNotFound) || errors.Is(err, objstore.ErrRefused) {
		found, err = marker.Marker{}, nil
	}
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.found == nil {
		close(o.read)
	}
	o.mu.found = &found
	return nil
}

func (o *ownership) malformed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the agent stops
	}
	return fmt.Errorf("--bucket %s: %w: upgrade this program, or set --bucket to the control plane's", o.location, err)
}

// wrong returns the error of a bucket that is not the virtual cluster's, as an operator reads it.
func (o *ownership) wrong(expected string, found marker.Marker) error {
	return &marker.WrongError{
		Location: o.location, VirtualCluster: o.virtualCluster, Found: found, Expected: expected,
		Holder: "the control plane", Remedy: "set --bucket to the control plane's",
	}
}

// refused returns nil if the bucket's marker is now the one of the cluster that refused the agent, else why not.
func (o *ownership) refused(ctx context.Context, clusterID string) error {
	if err := o.look(ctx); err != nil {
		return o.malformed(ctx, err)
	}
	o.mu.Lock()
	found := *o.mu.found
	o.mu.Unlock()
	if found.ClusterID == clusterID && found.MovedTo == "" {
		return nil
	}
	return o.wrong(clusterID, found)
}
