package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
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
	// maxRefusals is the number of consecutive refusals of one marker after which a bucket with the expected id is a wrong one. They last
	// about as long as the sessions of agents that died.
	maxRefusals = 6
)

// rightBucket is the remedy for a wrong bucket.
const rightBucket = "set --bucket to that of the virtual cluster's records"

// errNotCompared is the fault of an agent that has not compared its bucket with the control plane yet.
var errNotCompared = errors.New("the bucket's cluster id has not been compared with the control plane's yet")

// ownership compares the marker of the agent's bucket with the control plane's cluster id. Until they are equal after a Welcome, the gate
// holds all writes to the bucket. Each Welcome and each refusal of the bucket makes the ownership read the marker again. If the refusal has
// a BucketCheck, the ownership does the check (bucketcheck.go).
//
//	the read returns             while the gate is closed             once the gate is open
//	the expected id              the gate opens after a Welcome       nothing to do
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
	news     chan struct{} // holds one item after a refused agent found another marker than it had reported

	// The fields below belong to run.
	missing time.Time // of the first of consecutive misses, zero if the newest read was none
	failing bool      // the newest read failed

	mu struct {
		sync.Mutex
		found *marker.Marker // the newest one read, with an empty id after a miss while the gate is closed; nil before
		// virtualCluster names the marker. Without a setting it is "" before the first Welcome or refusal, and the first name stays.
		virtualCluster string
		expected       string           // the control plane's cluster id, "" before the first Welcome or refusal
		refused        bool             // expected came with a refusal
		refusals       int              // consecutive ones of counted
		counted        reported         // the newest report of a marker that was refused
		check          *api.BucketCheck // of the newest refusal, nil if there was none or the bucket has passed it
		passed         string           // id of the newest check that the bucket has passed
		reported       reported         // in the newest Hello
	}
}

// reported is the part of a Hello that tells about the bucket.
type reported struct {
	read                       bool
	clusterID, bucketID, check string
}

func newOwnership(bucket objstore.Bucket, cfg *Config) *ownership {
	o := &ownership{
		bucket: bucket, location: open.Redact(cfg.BucketURL), gate: marker.NewGate(bucket),
		log: cfg.Log.Named("store"), read: make(chan struct{}), changed: make(chan struct{}, 1), news: make(chan struct{}, 1),
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
	r := o.report()
	o.mu.reported = r
	if !r.read {
		return nil
	}
	return &api.BucketMarker{ClusterId: r.clusterID, BucketId: r.bucketID, Check: r.check}
}

// report returns the report for the next Hello. Called with mu held.
func (o *ownership) report() reported {
	if o.mu.found == nil {
		return reported{}
	}
	return reported{read: true, clusterID: o.mu.found.ClusterID, bucketID: o.mu.found.BucketID, check: o.mu.passed}
}

// onWelcome makes run compare the bucket with the cluster id of a Welcome.
func (o *ownership) onWelcome(w *api.Welcome) {
	o.expect(w.GetVirtualCluster(), w.GetClusterId(), nil, false)
}

// refused makes run compare the bucket with the cluster id of an owner that refused the bucket, and do the owner's check. It returns when
// the next Hello has something new to report, or after refusedPause.
func (o *ownership) refused(ctx context.Context, wrong *client.WrongBucketError) {
	select {
	case <-o.news:
	default:
	}
	o.expect(wrong.VirtualCluster, wrong.ClusterID, wrong.Check, true)
	select {
	case <-o.news:
	case <-time.After(refusedPause):
	case <-ctx.Done():
	}
}

// expect sets the facts that the owner sent.
func (o *ownership) expect(virtualCluster, clusterID string, check *api.BucketCheck, refused bool) {
	o.mu.Lock()
	o.mu.virtualCluster = cmp.Or(o.mu.virtualCluster, virtualCluster)
	o.mu.expected, o.mu.check, o.mu.refused = clusterID, check, refused
	o.count()
	o.mu.Unlock()
	select {
	case o.changed <- struct{}{}:
	default:
	}
}

// count counts a refusal of the reported marker. Refusals without a marker do not count: they last as long as the store is away. Called with
// mu held.
func (o *ownership) count() {
	r := o.mu.reported
	switch {
	case !o.mu.refused:
		o.mu.refusals = 0
	case r.clusterID == "":
	case r != o.mu.counted:
		o.mu.counted, o.mu.refusals = r, 1
	default:
		o.mu.refusals++
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
	if err == nil || errors.Is(err, objstore.ErrNotFound) {
		found, err = o.check(ctx, found, err)
	}
	var wrong *marker.WrongError
	switch {
	case ctx.Err() != nil:
		return true, nil //nolint:nilerr // the agent stops
	case errors.As(err, &wrong):
		return true, err
	case err != nil:
		return o.failed(err)
	}
	o.failing = false
	expected, refused, hopeless := o.note(found)
	switch {
	case found.MovedTo != "":
		return true, o.wrong(expected, found)
	case expected == "":
	case found.ClusterID != expected:
		return true, o.wrong(expected, found)
	case !refused:
		o.gate.Open()
	case hopeless:
		wrong := o.wrong(expected, found)
		if found.BucketID == "" { // a control plane wrote the marker, or an operator copied it
			wrong.Remedy += ", or remove " + marker.Key(o.name()) + " if this is the right bucket, and it is written again"
		}
		return true, wrong
	}
	o.missing = time.Time{}
	return true, nil
}

func (o *ownership) look(ctx context.Context) (marker.Marker, error) {
	ctx, cancel := context.WithTimeout(ctx, markerTimeout)
	defer cancel()
	return marker.Read(ctx, o.bucket, o.name())
}

// note stores a marker for hello. It returns the expected cluster id, and whether its owner refused the bucket. hopeless reports more than
// maxRefusals of this very marker.
func (o *ownership) note(found marker.Marker) (expected string, refused, hopeless bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.found == nil {
		close(o.read)
	}
	o.mu.found = &found
	report := o.report()
	if o.mu.refused && report != o.mu.reported {
		select {
		case o.news <- struct{}{}:
		default:
		}
	}
	return o.mu.expected, o.mu.refused, report == o.mu.counted && o.mu.refusals > maxRefusals
}

// failed is compare after a read that returned no marker.
func (o *ownership) failed(err error) (settled bool, _ error) {
	closed := o.ready() != nil
	if closed && errors.Is(err, marker.ErrNewer) {
		return true, fmt.Errorf("--bucket %s: %w: upgrade this program, or %s", o.location, err, rightBucket)
	}
	if !o.failing {
		o.failing = true
		if closed && errors.Is(err, objstore.ErrNotFound) {
			o.log.Info("waiting for the cluster id in the bucket", zap.String("bucket", o.location))
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
	expected, refused, _ := o.note(marker.Marker{})
	patience := markerPatience
	if refused && errors.Is(err, objstore.ErrNotFound) {
		patience = absentPatience
	}
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
		return fmt.Errorf("--bucket %s: %w: grant the agent the rights to read the object and to list the bucket, or %s",
			o.location, err, rightBucket)
	case errors.Is(err, marker.ErrMalformed):
		return fmt.Errorf("--bucket %s: %w: %s, or remove the object if this is the right bucket, and it is written again",
			o.location, err, rightBucket)
	}
	return o.wrong(expected, marker.Marker{})
}

// wrong returns the error of a bucket that is not the virtual cluster's, as an operator reads it.
func (o *ownership) wrong(expected string, found marker.Marker) *marker.WrongError {
	return &marker.WrongError{
		Location: o.location, VirtualCluster: o.name(), Found: found, Expected: expected,
		Holder: "the control plane", Remedy: rightBucket,
	}
}
