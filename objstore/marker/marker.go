// Package marker ties a bucket to virtual clusters. One small object for each names the cluster's id, so that a process with
// another bucket, another prefix or another etcd finds out before it writes anything.
//
//	clusters/<virtual cluster>   JSON, at most 4 KiB
//	<cluster id>/...             everything else of the virtual cluster
//
// The members of the JSON are in the order of this table (internal/bytetable). testdata/marker.golden has an example.
//
// Object:
//
//	member      type    meaning
//	format      number  1
//	cluster_id  string
//	moved_to    string  location of the objects; absent if they are here
//
// A marker that an agent wrote has the id of the bucket too (testdata/bucket.golden).
//
// Object of an agent:
//
//	member      type    meaning
//	format      number  1
//	cluster_id  string
//	bucket_id   string  32 hexadecimal digits, random
//
// The process that uses a bucket creates the marker, create-only, once the cluster id is in the metadata log: the control plane in its own
// bucket, an agent in a bucket that the control plane does not reach. Of two buckets with the same cluster id, the state knows the right one
// by its bucket id (metadata.UseBucket). moved_to is set where the cluster's objects went elsewhere (Move).
package marker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/freshet-io/freshet/objstore"
)

// Format is the newest format of a marker that this program reads and the one that it writes.
const Format = 1

// maxBytes bounds what is read of a marker.
const maxBytes = 4 << 10

// Errors of an object that was read but holds no Marker for this program.
var (
	// ErrMalformed is returned for an object that is no marker, such as an empty one or one cut off. A store or a proxy can
	// answer so by mistake, so another read may succeed.
	ErrMalformed = errors.New("malformed cluster-id object")
	// ErrNewer is returned for a marker of a newer format.
	ErrNewer = errors.New("cluster-id object of a newer format")
)

// Marker is the content of the object.
type Marker struct {
	ClusterID string
	MovedTo   string // location that the objects were moved to, "" if they are here
	BucketID  string // "" in a marker that a control plane wrote
}

// encoded is a Marker in the bucket.
type encoded struct {
	Format    int    `json:"format"`
	ClusterID string `json:"cluster_id"`
	MovedTo   string `json:"moved_to,omitempty"`
	BucketID  string `json:"bucket_id,omitempty"`
}

// Prefix returns the prefix of the objects of a cluster id.
func Prefix(clusterID string) string { return clusterID + "/" }

// Key returns the key of a virtual cluster's marker.
func Key(virtualCluster string) string { return "clusters/" + virtualCluster }

// Read returns the marker of a virtual cluster. Errors: objstore.ErrNotFound if there is none, ErrMalformed, ErrNewer, or
// the bucket's.
func Read(ctx context.Context, bucket objstore.Bucket, virtualCluster string) (Marker, error) {
	key := Key(virtualCluster)
	object, err := bucket.Get(ctx, key, 0, -1)
	if err != nil {
		return Marker{}, fmt.Errorf("read %s: %w", key, err)
	}
	defer object.Close() // it was read
	content, err := io.ReadAll(io.LimitReader(object, maxBytes+1))
	if err != nil {
		return Marker{}, fmt.Errorf("read %s: %w", key, err)
	}
	m, err := decode(content)
	if err != nil {
		return Marker{}, fmt.Errorf("read %s: %w", key, err)
	}
	return m, nil
}

func decode(content []byte) (Marker, error) {
	var e encoded
	switch err := json.Unmarshal(content, &e); {
	case len(content) == 0:
		return Marker{}, fmt.Errorf("%w: it is empty", ErrMalformed)
	case len(content) > maxBytes:
		return Marker{}, fmt.Errorf("%w: more than %d bytes", ErrMalformed, maxBytes)
	case err != nil:
		return Marker{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	case e.Format > Format:
		return Marker{}, fmt.Errorf("%w: format %d, this program reads format %d", ErrNewer, e.Format, Format)
	case e.Format < Format:
		return Marker{}, fmt.Errorf("%w: format %d, this program reads format %d", ErrMalformed, e.Format, Format)
	case e.ClusterID == "":
		return Marker{}, fmt.Errorf("%w: no cluster id", ErrMalformed)
	}
	return Marker{ClusterID: e.ClusterID, MovedTo: e.MovedTo, BucketID: e.BucketID}, nil
}

// Create writes the marker of a virtual cluster if there is none, and returns the one that is there then: another than m if
// the key was taken. So a lost answer, or two processes that create it at once, do no harm. Errors: the bucket's.
func Create(ctx context.Context, bucket objstore.Bucket, virtualCluster string, m Marker) (Marker, error) {
	content, err := json.Marshal(encoded{Format: Format, ClusterID: m.ClusterID, MovedTo: m.MovedTo, BucketID: m.BucketID})
	if err != nil {
		return Marker{}, fmt.Errorf("encode marker: %w", err)
	}
	if len(content) > maxBytes {
		return Marker{}, fmt.Errorf("%w: more than %d bytes", ErrMalformed, maxBytes)
	}
	err = bucket.Put(ctx, Key(virtualCluster), objstore.NewBody(content))
	if err == nil {
		return m, nil
	}
	if !errors.Is(err, objstore.ErrAlreadyExists) {
		return Marker{}, fmt.Errorf("create %s: %w", Key(virtualCluster), err)
	}
	return Read(ctx, bucket, virtualCluster)
}
