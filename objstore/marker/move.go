package marker

import (
	"context"
	"errors"
	"fmt"

	"github.com/freshet-io/freshet/objstore"
)

// Move makes another bucket the one of a virtual cluster, after its objects were copied there. Nothing of the cluster may run
// meanwhile. It can be repeated after any failure.
type Move struct {
	From, To                 objstore.Bucket
	FromLocation, ToLocation string // for people, without secrets
	VirtualCluster           string
}

// Run compares both buckets, marks the new one and then notes in the old one where the objects went, so that no process starts
// on it. It returns the number of objects.
func (m Move) Run(ctx context.Context) (objects int, err error) {
	id, err := m.identity(ctx)
	if err != nil {
		return 0, err
	}
	if objects, err = m.compare(ctx, id.ClusterID); err != nil {
		return 0, err
	}
	if err := replace(ctx, m.To, m.VirtualCluster, id); err != nil {
		return 0, fmt.Errorf("mark %s: %w", m.ToLocation, err)
	}
	id.MovedTo = m.ToLocation
	if err := replace(ctx, m.From, m.VirtualCluster, id); err != nil {
		return 0, fmt.Errorf("retire %s: %w", m.FromLocation, err)
	}
	return objects, nil
}

// identity returns the cluster id and bucket id to move. An earlier attempt may have left the old bucket without a marker.
func (m Move) identity(ctx context.Context) (Marker, error) {
	from, err := lookUp(ctx, m.From, m.VirtualCluster)
	if err != nil {
		return Marker{}, fmt.Errorf("--from %s: %w", m.FromLocation, err)
	}
	to, err := lookUp(ctx, m.To, m.VirtualCluster)
	if err != nil {
		return Marker{}, fmt.Errorf("--to %s: %w", m.ToLocation, err)
	}
	switch {
	case from.MovedTo != "" && from.MovedTo != m.ToLocation:
		return Marker{}, fmt.Errorf("--from %s: virtual cluster %q was moved to %s: set --from to that", m.FromLocation, m.VirtualCluster, from.MovedTo)
	case from.ClusterID == "" && to.ClusterID == "":
		return Marker{}, fmt.Errorf("--from %s has no object %s: set it to the bucket that virtual cluster %q runs on",
			m.FromLocation, Key(m.VirtualCluster), m.VirtualCluster)
	case from.ClusterID == "":
		return Marker{ClusterID: to.ClusterID, BucketID: to.BucketID}, nil
	case to.ClusterID != "" && to.ClusterID != from.ClusterID:
		return Marker{}, fmt.Errorf("--to %s holds virtual cluster %q with cluster id %s, but --from %s has cluster id %s: set --to to a bucket without it",
			m.ToLocation, m.VirtualCluster, to.ClusterID, m.FromLocation, from.ClusterID)
	}
	return Marker{ClusterID: from.ClusterID, BucketID: from.BucketID}, nil
}

// lookUp is Read with an empty marker where there is none.
func lookUp(ctx context.Context, bucket objstore.Bucket, virtualCluster string) (Marker, error) {
	found, err := Read(ctx, bucket, virtualCluster)
	if errors.Is(err, objstore.ErrNotFound) {
		return Marker{}, nil
	}
	return found, err
}

// compare counts the objects of the old bucket, and returns an error if the new one lacks any or has one of another size.
func (m Move) compare(ctx context.Context, id string) (objects int, err error) {
	from, to := &walk{bucket: m.From, prefix: Prefix(id)}, &walk{bucket: m.To, prefix: Prefix(id)}
	missing, example := 0, ""
	for {
		object, ok, err := from.next(ctx)
		if err != nil {
			return 0, fmt.Errorf("list %s: %w", m.FromLocation, err)
		}
		if !ok {
			break
		}
		objects++
		copied, err := to.seek(ctx, object.Key)
		if err != nil {
			return 0, fmt.Errorf("list %s: %w", m.ToLocation, err)
		}
		if copied.Key != object.Key || copied.Size != object.Size {
			if missing++; example == "" {
				example = object.Key
			}
		}
	}
	if missing > 0 {
		return objects, fmt.Errorf("%d of %d objects under %s are missing in %s, such as %s: copy them first, while nothing of the cluster runs",
			missing, objects, Prefix(id), m.ToLocation, example)
	}
	return objects, nil
}

// walk goes through the objects under a prefix in key order, a page at a time.
type walk struct {
	bucket objstore.Bucket
	prefix string
	page   []objstore.Info
	after  string
	ended  bool
}

// next returns the next object; false at the end.
func (o *walk) next(ctx context.Context) (objstore.Info, bool, error) {
	if len(o.page) == 0 && !o.ended {
		page, err := o.bucket.List(ctx, o.prefix, o.after, objstore.MaxKeys)
		if err != nil {
			return objstore.Info{}, false, err
		}
		if o.page, o.ended = page, len(page) == 0; !o.ended {
			o.after = page[len(page)-1].Key
		}
	}
	if o.ended {
		return objstore.Info{}, false, nil
	}
	object := o.page[0]
	o.page = o.page[1:]
	return object, true, nil
}

// seek skips to the first object whose key is not below the given one; a zero Info if there is none. It stays there.
func (o *walk) seek(ctx context.Context, key string) (objstore.Info, error) {
	for {
		object, ok, err := o.next(ctx)
		if err != nil || !ok {
			return objstore.Info{}, err
		}
		if object.Key >= key {
			o.page = append([]objstore.Info{object}, o.page...)
			return object, nil
		}
	}
}

// replaceAttempts bounds how often a marker is replaced that another process creates meanwhile.
const replaceAttempts = 3

// replace makes m the marker. Objects are never replaced, so the old one is deleted first.
func replace(ctx context.Context, bucket objstore.Bucket, virtualCluster string, m Marker) error {
	for range replaceAttempts {
		there, err := Create(ctx, bucket, virtualCluster, m)
		if err != nil || there == m {
			return err
		}
		if err := bucket.Delete(ctx, []string{Key(virtualCluster)}); err != nil {
			return fmt.Errorf("delete %s: %w", Key(virtualCluster), err)
		}
	}
	return fmt.Errorf("another process writes %s: stop everything of the cluster first", Key(virtualCluster))
}
