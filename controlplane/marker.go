package controlplane

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
	"github.com/freshet-io/freshet/objstore/marker"
)

// Bounds of comparing the bucket's marker with the cluster id.
const (
	markerTimeout = 3 * time.Second        // of one attempt
	markerPause   = 500 * time.Millisecond // between two
	idPause       = 20 * time.Millisecond  // between two looks for the state's cluster id
	// markerSample is how many live bundles are looked up before a bucket without any of them counts as a wrong one.
	markerSample = 3
)

// bucketCheck sees to it that a virtual cluster's bucket belongs to it: the cluster id of the state is in the bucket, written
// create-only, before anything else is written there. Writes wait at the gate meanwhile.
//
//	the state has  the bucket has          outcome
//	id             the same id             the gate opens
//	id             another id, or moved    WrongError
//	id             none, and what the      the id is written: the process died between Bootstrap and this, or somebody
//	               state refers to         removed the id
//	id             none, nor what the      WrongError
//	               state refers to
//	none           none                    Bootstrap enters the log, then as above
//	none           an id                   WrongError, before Bootstrap
type bucketCheck struct {
	bucket         objstore.Bucket // below the gate
	gate           *marker.Gate
	location       string
	etcdPrefix     string
	virtualCluster string
	log            *zap.Logger
	metalog        metalog.Log
	clusterID      func() string       // of the state, "" while that is not known
	owner          func() *owner.Owner // nil on other replicas
	fault          atomic.Pointer[error]
	absent         atomic.Bool // the newest attempt found no marker, and could not decide whether to create one
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

// run compares until the bucket was found to be the virtual cluster's. Its error is a *marker.WrongError, or the marker's
// being malformed.
func (c *bucketCheck) run(ctx context.Context, works <-chan struct{}) error {
	select {
	case <-works:
	case <-ctx.Done():
		return nil
	}
	for {
		done, err := c.attempt(ctx)
		switch {
		case done || ctx.Err() != nil:
			return nil //nolint:nilerr // the replica stops
		case final(err):
			return err
		}
		if err != nil && c.fault.Swap(&err) == nil {
			c.log.Warn("bucket's cluster id cannot be compared, trying again", zap.Error(err))
		}
		pause := markerPause
		if c.clusterID() == "" {
			pause = idPause // nothing was asked of the store
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// final reports whether trying again is no use.
func final(err error) bool {
	var wrong *marker.WrongError
	return errors.As(err, &wrong) || errors.Is(err, marker.ErrMalformed)
}

// attempt compares once. done reports that the bucket is the virtual cluster's.
func (c *bucketCheck) attempt(ctx context.Context) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, markerTimeout)
	defer cancel()
	own := c.clusterID()
	if own == "" {
		return false, nil
	}
	found, err := marker.Read(ctx, c.bucket, c.virtualCluster)
	if errors.Is(err, objstore.ErrNotFound) {
		var sure bool
		if sure, err = c.refersHere(ctx, own); err != nil || !sure {
			c.absent.Store(err == nil)
			return false, err
		}
		found, err = marker.Create(ctx, c.bucket, c.virtualCluster, marker.Marker{ClusterID: own})
	}
	if err != nil {
		return false, c.named(err)
	}
	if found.ClusterID != own || found.MovedTo != "" {
		return false, c.wrong(found, own, "")
	}
	c.gate.Open()
	c.log.Info("bucket belongs to this virtual cluster", zap.String("cluster_id", own))
	return true, nil
}

// reason returns the known cause why the bucket was not found to be the virtual cluster's yet, or nil. Replicas other than the
// owner o call it.
func (c *bucketCheck) reason(o metalog.Owner) error {
	if c.absent.Load() {
		return fmt.Errorf("--bucket %s has no object %s, which the owner %s at %s writes to its own: set --bucket, --etcd and --etcd-prefix to those of the owner",
			c.location, marker.Key(c.virtualCluster), o.Replica, o.Address)
	}
	if fault := c.fault.Load(); fault != nil {
		return *fault
	}
	return nil
}

// confirm returns nil if the bucket has the state's cluster id. It is called for a bucket with snapshots, so a missing id is an
// error: the id is written before them.
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

func (c *bucketCheck) named(err error) error {
	if errors.Is(err, marker.ErrMalformed) {
		return fmt.Errorf("--bucket %s: %w: upgrade this program, or set --bucket to the bucket of virtual cluster %q", c.location, err, c.virtualCluster)
	}
	return err
}

// refersHere reports whether a bucket without a marker holds what the state refers to. A state that refers to nothing yet fits
// any bucket; only the owner knows that.
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

// bundlesHere is refersHere for a state that no snapshot was taken of.
func (c *bucketCheck) bundlesHere(ctx context.Context, own string) (bool, error) {
	o := c.owner()
	if o == nil {
		return false, nil
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
		Location: c.location, VirtualCluster: c.virtualCluster, Found: found, Expected: expected, Object: object,
		Holder: fmt.Sprintf("etcd under --etcd-prefix %s", c.etcdPrefix),
		Remedy: "set --bucket, --etcd and --etcd-prefix to those of one cluster",
	}
}
