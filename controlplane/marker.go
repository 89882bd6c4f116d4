package controlplane

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/internal/periodic"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/metalog/etcdlog"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
	"github.com/freshet-io/freshet/objstore/marker"
)

// Bounds of comparing the bucket's marker with the cluster id.
const (
	markerTimeout = 3 * time.Second        // of one attempt
	markerPause   = 500 * time.Millisecond // between two while the gate is closed
	idPause       = 20 * time.Millisecond  // between two looks for the state's cluster id
	// markerRepeat is the time between two attempts of the owner once the gate is open. Agents wait longer for a missing marker.
	markerRepeat = 10 * time.Second
	// markerSample is the number of live bundles that bundlesHere looks up before a bucket without any of them is a wrong one.
	markerSample = 3
)

// bucketCheck checks that a bucket belongs to the virtual cluster. The cluster id of the state enters the bucket, create-only,
// before any other object. Until then, the gate holds all writes.
//
//	the state has  the bucket has          while the gate is closed    once the gate is open, on the owner
//	id             the same id             the gate opens              nothing to do
//	id             another id, or moved    WrongError                  a warning
//	id             none, and an object     the id is written           the id is written
//	               of the state
//	id             none, nor an object     WrongError                  a warning
//	               of the state
//	id             an unreadable marker    tried again                 a warning
//	none           none                    Bootstrap, then as above
//	none           an id                   WrongError, no Bootstrap
//
// An object of the state is one of the log's snapshots, or without snapshots a live bundle. A state without both fits any bucket, and so does
// a state without snapshots if the agents have a bucket of their own.
// Only the owner knows the bundles, so another replica without snapshots waits until the owner has written the id. The id is
// missing if a process ended between Bootstrap and the first attempt, or if an operator removed the object.
//
// The owner goes on comparing every markerRepeat, with one GET. A bucket of the state alone is read by no agent, so its owner compares only after
// further entries of the log, and an idle virtual cluster costs no request. Other replicas compare until their gate is open. Once the gate
// is open, no outcome ends the process, because the bucket was the cluster's own.
type bucketCheck struct {
	bucketFacts
	fault  atomic.Pointer[error]
	kept   *periodic.Loop // set by run
	absent atomic.Bool    // the newest attempt found no marker, and could not decide whether to create one
}

// bucketFacts never change.
type bucketFacts struct {
	setting        string          // --bucket or --state-bucket
	records        bool            // the bucket has bundles too
	bucket         objstore.Bucket // below the gate
	gate           *marker.Gate
	location       string
	etcdPrefix     string
	virtualCluster string
	log            *zap.Logger
	metalog        metalog.Log
	clusterID      func() string         // of the state, "" before Bootstrap
	owner          func() *owner.Owner   // nil on other replicas
	failed         func(began time.Time) // called after a request to the store without an answer; nil means nothing
}

// marked reports whether the bucket was found to be the virtual cluster's.
func (c *bucketCheck) marked() bool {
	select {
	case <-c.gate.Opened():
		return true
	default:
		return false
	}
}

// run compares until the gate is open or ctx ends. It returns an error if the bucket is a wrong one while the gate is closed: a *marker.WrongError, or
// marker.ErrNewer.
func (c *bucketCheck) run(ctx context.Context, works <-chan struct{}) error {
	select {
	case <-works:
	case <-ctx.Done():
		return nil
	}
	for !c.marked() {
		done, err := c.attempt(ctx)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the replica stops
		case final(err):
			return err
		case done:
			continue
		}
		if err != nil && c.fault.Swap(&err) == nil {
			c.log.Warn("bucket's cluster id cannot be compared, trying again", zap.Error(err))
		}
		pause := markerPause
		if c.clusterID() == "" {
			pause = idPause // the attempt sent no request to the store
		}
		if !sleep(ctx, pause) {
			return nil
		}
	}
	c.kept = c.keep(ctx)
	return nil
}

// wait returns, after run and the end of its context, once no comparison is under way.
func (c *bucketCheck) wait() {
	if c.kept != nil {
		c.kept.Wait()
	}
}

// keep repeats the comparison on the owner until ctx ends. It logs the first of several failures of one kind.
func (c *bucketCheck) keep(ctx context.Context) *periodic.Loop {
	failing, wrong := false, false // the newest attempt
	compared := uint64(0)          // index of the state before the newest attempt without an error
	repeats := new(periodic.Loop)
	repeats.Start(ctx, markerRepeat, func(ctx context.Context) time.Duration {
		o := c.owner()
		if o == nil {
			failing, wrong, compared = false, false, 0
			return markerRepeat
		}
		index, err := o.Read(func(*metadata.State) {})
		if err != nil { // its tenure is over
			return markerRepeat
		}
		if !c.records && index == compared {
			return markerRepeat
		}
		if _, err = c.attempt(ctx); err == nil {
			compared = index
		}
		pause := markerRepeat
		switch {
		case err == nil, ctx.Err() != nil:
		case final(err) && !wrong:
			c.log.Warn("bucket no longer carries this virtual cluster's id, processes that start with it will end", zap.Error(err))
		case !final(err) && !failing:
			c.log.Warn("bucket's cluster id cannot be compared, trying again", zap.Error(err))
		}
		if err != nil && !final(err) && !failing {
			pause = markerPause // a removed marker is written again before agents give up
		}
		failing, wrong = err != nil, final(err)
		return pause
	})
	return repeats
}

// sleep returns false if ctx ends before the pause.
func sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// final reports whether another attempt cannot succeed.
func final(err error) bool {
	var wrong *marker.WrongError
	return errors.As(err, &wrong) || errors.Is(err, marker.ErrNewer) || errors.Is(err, etcdlog.ErrRemoved)
}

// attempt compares once. done reports that the bucket is the virtual cluster's.
func (c *bucketCheck) attempt(ctx context.Context) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, markerTimeout)
	defer cancel()
	own := c.clusterID()
	if own == "" {
		return false, nil
	}
	began := time.Now()
	found, err := marker.Read(ctx, c.bucket, c.virtualCluster)
	if errors.Is(err, objstore.ErrNotFound) {
		var sure bool
		sure, err = c.refersHere(ctx, own)
		c.absent.Store(err == nil && !sure)
		if err != nil || !sure {
			return false, err
		}
		found, err = marker.Create(ctx, c.bucket, c.virtualCluster, marker.Marker{ClusterID: own})
		if err == nil && c.marked() {
			c.log.Warn("bucket's cluster id was removed and is written again", zap.String("cluster_id", own))
		}
	} else {
		c.absent.Store(false)
		if err != nil && c.failed != nil && !errors.Is(err, marker.ErrMalformed) && !errors.Is(err, marker.ErrNewer) {
			c.failed(began)
		}
	}
	if err != nil {
		return false, c.named(err)
	}
	if found.ClusterID != own || found.MovedTo != "" {
		return false, c.wrong(found, own, "")
	}
	if !c.marked() {
		c.gate.Open()
		c.log.Info("bucket belongs to this virtual cluster", zap.String("bucket", c.location), zap.String("cluster_id", own))
	}
	return true, nil
}

// reason returns the known cause of a closed gate, or nil. o is the owner that this replica knows of.
func (c *bucketCheck) reason(o metalog.Owner) error {
	if c.absent.Load() {
		return fmt.Errorf("%s %s has no object %s, which the owner %s at %s writes to its own: set %[1]s, --etcd and --etcd-prefix to those of the owner",
			c.setting, c.location, marker.Key(c.virtualCluster), o.Replica, o.Address)
	}
	if fault := c.fault.Load(); fault != nil {
		return *fault
	}
	return nil
}

// confirm returns nil if the bucket has the state's cluster id. The bucket has snapshots, so a missing id is an error: the id enters
// the bucket before snapshots.
func (c *bucketCheck) confirm(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, markerTimeout)
	defer cancel()
	found, err := marker.Read(ctx, c.bucket, c.virtualCluster)
	if err != nil && !errors.Is(err, objstore.ErrNotFound) {
		return c.named(err)
	}
	if own := c.clusterID(); found.ClusterID != own || found.MovedTo != "" {
		return c.wrong(found, own, "")
	}
	return nil
}

// named adds setting and remedy to the error of an object without a Marker.
func (c *bucketCheck) named(err error) error {
	remedy := "upgrade this program"
	switch {
	case errors.Is(err, marker.ErrMalformed):
		remedy = "remove the object if the bucket is the virtual cluster's, and the owner writes it again"
	case !errors.Is(err, marker.ErrNewer):
		return err
	}
	return fmt.Errorf("%s %s: %w: %s, or set %[1]s to the bucket of virtual cluster %[5]q", c.setting, c.location, err, remedy, c.virtualCluster)
}

// refersHere reports whether a bucket without a marker holds an object of the state. It returns a WrongError if the bucket holds
// none, and false if only the owner can decide.
func (c *bucketCheck) refersHere(ctx context.Context, own string) (bool, error) {
	refs, err := c.metalog.Snapshots(ctx)
	if err != nil {
		return false, fmt.Errorf("look for snapshots of the cluster: %w", err)
	}
	for _, ref := range refs {
		infos, err := c.bucket.List(ctx, ref.Name+"/", "", 1)
		if err != nil {
			return false, fmt.Errorf("look for snapshot %s: %w", ref.Name, err)
		}
		if len(infos) > 0 {
			return true, nil
		}
	}
	if len(refs) > 0 {
		return false, c.wrong(marker.Marker{}, own, refs[0].Name)
	}
	return c.bundlesHere(ctx, own)
}

// bundlesHere is refersHere for a log or a bucket without snapshots.
func (c *bucketCheck) bundlesHere(ctx context.Context, own string) (bool, error) {
	o := c.owner()
	if o == nil {
		return false, nil
	}
	if !c.records {
		return true, nil
	}
	var keys []string
	if _, err := o.ReadFrozen(func(s *metadata.State) {
		for b := range s.Bundles() {
			if keys = append(keys, bundle.Key(BundlePrefix(own), b)); len(keys) == markerSample {
				return
			}
		}
	}); err != nil {
		return false, err
	}
	for _, key := range keys {
		switch _, err := c.bucket.Head(ctx, key); {
		case err == nil:
			return true, nil
		case !errors.Is(err, objstore.ErrNotFound):
			return false, fmt.Errorf("look for bundle %s: %w", key, err)
		}
	}
	if len(keys) > 0 {
		return false, c.wrong(marker.Marker{}, own, keys[0])
	}
	return true, nil
}

// beforeBootstrap refuses to make a new virtual cluster in a bucket that holds one of that name.
func (c *bucketCheck) beforeBootstrap(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, markerTimeout)
	defer cancel()
	found, err := marker.Read(ctx, c.bucket, c.virtualCluster)
	switch {
	case err == nil:
		return c.wrong(found, "", "")
	case !errors.Is(err, objstore.ErrNotFound):
		return c.named(err)
	}
	return nil
}

func (c *bucketCheck) wrong(found marker.Marker, expected, object string) error {
	return &marker.WrongError{
		Setting: c.setting, Location: c.location, VirtualCluster: c.virtualCluster, Found: found, Expected: expected, Object: object,
		Holder: fmt.Sprintf("etcd under --etcd-prefix %s", c.etcdPrefix),
		Remedy: "set " + c.setting + ", --etcd and --etcd-prefix to those of one cluster",
	}
}
