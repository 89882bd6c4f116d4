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
	markerPause   = 500 * time.Millisecond // between two reads while the gate is closed
	// markerRepeat is the pause between two reads once the gate is open. Only a failed read is repeated.
	markerRepeat = 10 * time.Second
	// markerPatience is the maximum time of consecutive misses after the control plane sent its cluster id.
	markerPatience = 30 * time.Second
	// absentPatience replaces markerPatience if the owner refused the bucket and the object is absent: the bucket is probably a wrong one.
	// It exceeds the time in which the owner writes a removed marker again.
	absentPatience = 12 * time.Second
	// refusedPause is the pause before the next Hello to an owner that refused the bucket.
	refusedPause = 5 * time.Second
)

// errNotCompared is the fault of an agent that has not compared its bucket with the control plane yet.
var errNotCompared = errors.New("the bucket's cluster id has not been compared with the control plane's yet")

// ownership compares the marker of the agent's bucket with the control plane's cluster id. Until they are equal once, the gate
// holds all writes to the bucket. Each Welcome makes the ownership read the marker again.
//
//	the read returns             while the gate is closed             once the gate is open
//	the expected id              the gate opens                       nothing to do
//	another id, or moved         the agent ends                       the agent ends
//	a newer format               the agent ends                       read again after markerRepeat
//	no object, an access         a miss: read again, and the agent    read again after markerRepeat
//	refusal, or no marker        ends after markerPatience of misses
//	any other error              read again                           read again after markerRepeat
type ownership struct {
	bucket   objstore.Bucket // below the gate
	location string          // of the bucket, for people
	gate     *marker.Gate
	log      *zap.Logger
	read     chan struct{} // closed after the first read that found a marker or missed it
	changed  chan struct{} // holds one item after expected was set

	// The fields below belong to run.
	missing time.Time // of the first of consecutive misses, zero if the newest read was none
	failing bool      // the newest read failed

	mu struct {
		sync.Mutex
		found *marker.Marker // the newest one read, with an empty id after a miss while the gate is closed; nil before
		// virtualCluster names the marker. Without a setting it is "" before the first Welcome.
		virtualCluster string
		expected       string // the control plane's cluster id, "" before the first Welcome or refusal
		refused        bool   // the owner that sent expected refused the bucket
	}
}

func newOwnership(bucket objstore.Bucket, cfg *Config) *ownership {
	o := &ownership{
		bucket: bucket, location: open.Redact(cfg.BucketURL), gate: marker.NewGate(bucket),
		log: cfg.Log.Named("store"), read: make(chan struct{}), changed: make(chan struct{}, 1),
	}
	o.mu.virtualCluster = cfg.VirtualCluster
	return o
}

// name returns the name of the virtual cluster, "" while the control plane has not told it.
func (o *ownership) name() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.virtualCluster
}

// hello returns the bucket's cluster id for a Hello, or nil before the first read. Once the gate is open, the id stays the one of the
// newest marker read.
func (o *ownership) hello() *api.BucketMarker {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.found == nil {
		return nil
	}
	return &api.BucketMarker{ClusterId: o.mu.found.ClusterID}
}

// onWelcome makes run compare the bucket with the cluster id of a Welcome.
func (o *ownership) onWelcome(w *api.Welcome) {
	if w.GetVirtualCluster() != "" {
		o.mu.Lock()
		o.mu.virtualCluster = w.GetVirtualCluster()
		o.mu.Unlock()
	}
	o.expect(w.GetClusterId(), false)
}

// refused makes run compare the bucket with the cluster id of an owner that refused the bucket. It returns when the gate opens, or
// after refusedPause.
func (o *ownership) refused(ctx context.Context, clusterID string) {
	opened := o.gate.Opened()
	if o.ready() == nil {
		opened = nil
	}
	o.expect(clusterID, true)
	select {
	case <-opened:
	case <-time.After(refusedPause):
	case <-ctx.Done():
	}
}

func (o *ownership) expect(clusterID string, refused bool) {
	o.mu.Lock()
	o.mu.expected, o.mu.refused = clusterID, refused
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

// run compares until ctx ends. works is closed when the store can be used. An error means that the agent must not use the bucket.
func (o *ownership) run(ctx context.Context, works <-chan struct{}) error {
	select {
	case <-works:
	case <-ctx.Done():
		return nil
	}
	for {
		settled, err := true, error(nil)
		if o.name() != "" {
			settled, err = o.compare(ctx)
		}
		if err != nil {
			return err
		}
		var again <-chan time.Time
		if !settled {
			again = time.After(o.pause())
		}
		select {
		case <-again:
		case <-o.changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// pause returns the time between two reads.
func (o *ownership) pause() time.Duration {
	if o.ready() == nil {
		return markerRepeat
	}
	return markerPause
}

// compare reads the marker and compares it with the control plane's cluster id. settled reports whether only another Welcome or
// refusal can change the outcome.
func (o *ownership) compare(ctx context.Context) (settled bool, err error) {
	found, err := o.look(ctx)
	if ctx.Err() != nil {
		return true, nil //nolint:nilerr // the agent stops
	}
	if err != nil {
		return o.failed(err)
	}
	o.missing, o.failing = time.Time{}, false
	expected := o.note(found)
	switch {
	case found.MovedTo != "":
		return true, o.wrong(expected, found)
	case expected == "":
		return true, nil
	case found.ClusterID != expected:
		return true, o.wrong(expected, found)
	}
	o.gate.Open()
	return true, nil
}

func (o *ownership) look(ctx context.Context) (marker.Marker, error) {
	ctx, cancel := context.WithTimeout(ctx, markerTimeout)
	defer cancel()
	return marker.Read(ctx, o.bucket, o.name())
}

// note stores a marker for hello and returns the expected cluster id.
func (o *ownership) note(found marker.Marker) (expected string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.found == nil {
		close(o.read)
	}
	o.mu.found = &found
	return o.mu.expected
}

// failed is compare after a read that returned no marker.
func (o *ownership) failed(err error) (settled bool, _ error) {
	closed := o.ready() != nil
	if closed && errors.Is(err, marker.ErrNewer) {
		return true, fmt.Errorf("--bucket %s: %w: upgrade this program, or set --bucket to the control plane's", o.location, err)
	}
	if !o.failing {
		o.failing = true
		if closed && errors.Is(err, objstore.ErrNotFound) {
			o.log.Info("waiting for the control plane to write its cluster id to the bucket", zap.String("bucket", o.location))
		} else {
			o.log.Info("cluster id in the bucket cannot be read, trying again", zap.Duration("again_in", o.pause()), zap.Error(err))
		}
	}
	switch {
	case !closed:
		return false, nil
	case !missed(err):
		o.missing = time.Time{}
		return false, nil
	}
	expected := o.note(marker.Marker{})
	o.mu.Lock()
	patience := markerPatience
	if o.mu.refused && errors.Is(err, objstore.ErrNotFound) {
		patience = absentPatience
	}
	o.mu.Unlock()
	switch {
	case expected == "":
		o.missing = time.Time{}
	case o.missing.IsZero():
		o.missing = time.Now()
	case time.Since(o.missing) > patience:
		return true, o.unfit(expected, err)
	}
	return false, nil
}

// missed reports whether the error of a read may last: the object is absent, access to it is refused, or it is no marker. S3 refuses
// access to an absent object if the process may not list the bucket.
func missed(err error) bool {
	return errors.Is(err, objstore.ErrNotFound) || errors.Is(err, objstore.ErrRefused) || errors.Is(err, marker.ErrMalformed)
}

// unfit returns the error of a bucket whose marker was missed for markerPatience. err is the newest miss.
func (o *ownership) unfit(expected string, err error) error {
	switch {
	case errors.Is(err, objstore.ErrRefused):
		return fmt.Errorf("--bucket %s: %w: grant the agent the rights to read the object and to list the bucket, or set --bucket to the control plane's",
			o.location, err)
	case errors.Is(err, marker.ErrMalformed):
		return fmt.Errorf("--bucket %s: %w: set --bucket to the control plane's, or remove the object there, and the control plane writes it again",
			o.location, err)
	}
	return o.wrong(expected, marker.Marker{})
}

// wrong returns the error of a bucket that is not the virtual cluster's, as an operator reads it.
func (o *ownership) wrong(expected string, found marker.Marker) error {
	return &marker.WrongError{
		Location: o.location, VirtualCluster: o.name(), Found: found, Expected: expected,
		Holder: "the control plane", Remedy: "set --bucket to the control plane's",
	}
}
