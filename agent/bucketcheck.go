package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"

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
// bucket has most bundles of the check and no marker, check writes the marker. A marker without a bucket id stays as it is. check returns the
// marker that the bucket has then, read without a check, or a *marker.WrongError.
func (o *ownership) check(ctx context.Context, found marker.Marker, read error) (marker.Marker, error) {
	o.mu.Lock()
	check, expected := o.mu.check, o.mu.expected
	o.mu.Unlock()
	if check == nil || read == nil && (found.ClusterID != expected || found.MovedTo != "") {
		return found, read
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
	if o.mu.check != nil && o.mu.check.Id == check.Id { // a further refusal may have repeated it
		o.mu.check = nil
	}
	return found, nil
}

// lookUp returns nil if the bucket has more than half of the bundles of the check, because single ones may be lost. It returns a
// *marker.WrongError if the bucket lacks half of them, and another error if the store's answers do not decide.
func (o *ownership) lookUp(ctx context.Context, check *api.BucketCheck, expected string, found marker.Marker) error {
	ctx, cancel := context.WithTimeout(ctx, markerTimeout)
	defer cancel()
	if len(check.Bundles) > maxCheckBundles {
		return fmt.Errorf("the control plane asks for %d bundles, more than %d", len(check.Bundles), maxCheckBundles)
	}
	errs := make([]error, len(check.Bundles))
	var heads sync.WaitGroup
	for i, b := range check.Bundles {
		heads.Go(func() {
			key := bundle.Key(check.BundlePrefix, id.Bundle(b))
			_, err := o.bucket.Head(ctx, key)
			switch {
			case errors.Is(err, objstore.ErrNotFound):
				wrong := o.wrong(expected, found)
				wrong.Object = key
				errs[i] = wrong
			case err != nil:
				errs[i] = fmt.Errorf("look for bundle %s: %w", key, err)
			}
		})
	}
	heads.Wait()
	return decide(errs)
}

// decide returns the outcome of a look-up from the errors of its bundles.
func decide(errs []error) error {
	var missing, failed error // the first of each
	found, lacks := 0, 0
	for _, err := range errs {
		var wrong *marker.WrongError
		switch {
		case err == nil:
			found++
		case errors.As(err, &wrong):
			missing = cmp.Or(missing, err)
			lacks++
		default:
			failed = cmp.Or(failed, err)
		}
	}
	switch {
	case 2*found > len(errs), len(errs) == 0:
		return nil
	case 2*lacks >= len(errs):
		return missing
	}
	return failed
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
	if !id.ValidVirtualCluster(name) || !id.ValidCluster(clusterID) {
		return marker.Marker{}, fmt.Errorf("the control plane named the virtual cluster %.300q with cluster id %.300q, which are not those of one", name, clusterID)
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
