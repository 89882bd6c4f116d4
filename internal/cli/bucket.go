package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/marker"
	"github.com/freshet-io/freshet/objstore/open"
)

// BucketConfig has the settings of the `freshet bucket` commands.
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
	}
	return s.writeBucket(bucketResult{VirtualCluster: c.VirtualCluster, ClusterID: found.ClusterID, MovedTo: found.MovedTo}, func(b bucketResult) string {
		line := fmt.Sprintf("virtual cluster %s, cluster id %s", b.VirtualCluster, b.ClusterID)
		if b.MovedTo != "" {
			line += ", moved to " + b.MovedTo
		}
		return line
	})
}

// bucketResult is the result of a `freshet bucket` command.
type bucketResult struct {
	VirtualCluster string `json:"virtual_cluster"`
	ClusterID      string `json:"cluster_id,omitempty"`
	MovedTo        string `json:"moved_to,omitempty"`
	Objects        int    `json:"objects,omitempty"` // that were found in the new bucket
}

func (s Streams) writeBucket(b bucketResult, line func(bucketResult) string) error {
	if s.json() {
		return s.WriteJSON(b)
	}
	_, err := fmt.Fprintln(s.Out, line(b))
	return err
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
	return s.writeBucket(bucketResult{VirtualCluster: c.VirtualCluster, MovedTo: location, Objects: objects}, func(b bucketResult) string {
		return fmt.Sprintf("virtual cluster %s is at %s now, with %s: set --bucket of its control plane and agents to that",
			b.VirtualCluster, b.MovedTo, count(int64(b.Objects), "object"))
	})
}
