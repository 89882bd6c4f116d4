package agent

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
	"github.com/freshet-io/freshet/objstore/marker"
)

// maxCheckBundles is the maximum number of bundles of a BucketCheck that an agent looks up.
const maxCheckBundles = 16

// check does the BucketCheck of the newest refusal, if there is one. read is nil, or objstore.ErrNotFound if the bucket has no marker. If the
// bucket has all bundles of the check and no marker, check writes the marker. It returns the marker that the bucket has then, read without
// a check, or a *marker.WrongError.
func (o *ownership) check(ctx context.Context, found marker.Marker, read error) (marker.Marker, error) {
	o.mu.Lock()
	check, expected := o.mu.check, o.mu.expected
	o.mu.Unlock()
	if check == nil || read == nil && (found.ClusterID != expected || found.MovedTo != "") {
		return found, read
	}
	if read == nil && found.BucketID == "" {
		return found, o.wrong(expected, found) // a control plane marked the bucket, and agents have used another one since
	}
	if err := o.lookUp(ctx, check, expected, found); err != nil {
		return found, err
	}
	if read != nil {
		var err error
		if found, err = o.mark(ctx, expected); err != nil {
			return found, err
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.passed = check.Id
	if o.mu.check == check {
		o.mu.check = nil
	}
	return found, nil
}

// lookUp returns a *marker.WrongError if the bucket lacks a bundle of the check.
func (o *ownership) lookUp(ctx context.Context, check *api.BucketCheck, expected string, found marker.Marker) error {
	ctx, cancel := context.WithTimeout(ctx, markerTimeout)
	defer cancel()
	if len(check.Bundles) > maxCheckBundles {
		return fmt.Errorf("the control plane asks for %d bundles, more than %d", len(check.Bundles), maxCheckBundles)
	}
	for _, b := range check.Bundles {
		key := bundle.Key(check.BundlePrefix, id.Bundle(b))
		switch _, err := o.bucket.Head(ctx, key); {
		case errors.Is(err, objstore.ErrNotFound):
			wrong := o.wrong(expected, found)
			wrong.Object = key
			return wrong
		case err != nil:
			return fmt.Errorf("look for bundle %s: %w", key, err)
		}
	}
	return nil
}

// errOtherMarker is returned if the marker was replaced while the agent used the bucket.
var errOtherMarker = errors.New("the bucket has another marker by now")

// markAgain writes the marker that the agent has found in its bucket, if it was removed since then.
func (o *ownership) markAgain(ctx context.Context) error {
	if err := o.ready(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, markerTimeout)
	defer cancel()
	o.mu.Lock()
	name, found := o.mu.virtualCluster, *o.mu.found
	o.mu.Unlock()
	there, err := marker.Create(ctx, o.bucket, name, found)
	if err != nil {
		return err
	}
	if there != found {
		return errOtherMarker
	}
	return nil
}

// mark writes the marker with a new bucket id. It returns the marker of another process if that was faster.
func (o *ownership) mark(ctx context.Context, clusterID string) (marker.Marker, error) {
	ctx, cancel := context.WithTimeout(ctx, markerTimeout)
	defer cancel()
	name := o.name()
	if !id.ValidVirtualCluster(name) {
		return marker.Marker{}, fmt.Errorf("the control plane named the virtual cluster %q, which is no name of one", name)
	}
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails (crypto/rand)
	m, err := marker.Create(ctx, o.bucket, name, marker.Marker{ClusterID: clusterID, BucketID: hex.EncodeToString(random[:])})
	if err != nil {
		return m, err
	}
	o.log.Info("bucket has the cluster id of the virtual cluster from now on", zap.String("bucket", o.location),
		zap.String("cluster_id", m.ClusterID), zap.String("bucket_id", m.BucketID))
	return m, nil
}
