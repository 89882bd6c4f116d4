package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/marker"
	"github.com/freshet-io/freshet/objstore/open"
)

// BucketConfig is what `freshet bucket` commands are told.
type BucketConfig struct {
	URL            string // show: the bucket; move: the old one
	To             string // move: the new one
	VirtualCluster string
}

// ShowBucket writes which cluster a virtual cluster's objects in a bucket belong to.
func ShowBucket(ctx context.Context, c BucketConfig, s Streams) error {
	if c.URL == "" || c.VirtualCluster == "" {
		return usagef("want --bucket and --virtual-cluster")
	}
	bucket, err := open.Bucket(ctx, c.URL, open.AllowOneZone(true))
	if err != nil {
		return err
	}
	defer bucket.Close()
	found, err := marker.Read(ctx, bucket, c.VirtualCluster)
	switch {
	case errors.Is(err, objstore.ErrNotFound):
		return fmt.Errorf("%s has no object %s: no cluster of that name", open.Redact(c.URL), marker.Key(c.VirtualCluster))
	case err != nil:
		return err
	case found.MovedTo != "":
		fmt.Fprintf(s.Out, "virtual cluster %s, cluster id %s, moved to %s\n", c.VirtualCluster, found.ClusterID, found.MovedTo)
	default:
		fmt.Fprintf(s.Out, "virtual cluster %s, cluster id %s\n", c.VirtualCluster, found.ClusterID)
	}
	return nil
}

// MoveBucket makes another bucket a virtual cluster's, once its objects were copied there.
func MoveBucket(ctx context.Context, c BucketConfig, s Streams) error {
	if c.URL == "" || c.To == "" || c.VirtualCluster == "" {
		return usagef("want --from, --to and --virtual-cluster")
	}
	from, err := open.Bucket(ctx, c.URL, open.AllowOneZone(true))
	if err != nil {
		return fmt.Errorf("--from: %w", err)
	}
	defer from.Close()
	to, err := open.Bucket(ctx, c.To, open.AllowOneZone(true))
	if err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	defer to.Close()
	location := open.Redact(c.To)
	objects, err := marker.Move{
		From: from, To: to, FromLocation: open.Redact(c.URL), ToLocation: location, VirtualCluster: c.VirtualCluster,
	}.Run(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "virtual cluster %s is at %s now, with %s: set --bucket of its control plane and agents to that\n",
		c.VirtualCluster, location, count(int64(objects), "object"))
	return nil
}
