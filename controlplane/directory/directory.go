// Package directory has the virtual clusters in etcd: the cluster id of each name, and the Spec of each virtual cluster that the settings of
// control planes do not name. Keys, under the etcd prefix:
//
//	+clusters/<name>      the cluster id, as text
//	+specs/<cluster id>   a Spec, as JSON of at most 64 KiB (testdata/spec.golden)
//	+peers/<cluster id>   the secret by which the agents of the cluster know each other: 52 characters, A to Z and 2 to 7
//
// Create stores a name and its Spec together, so names are unique over both sources. Keys are not compared with those of other Specs. A reader
// that finds one name or key in two Specs serves the one that was created first.
//
// All other data of a virtual cluster is stored under its id, in etcd and in the bucket. The name is for people alone. A new cluster
// never finds data of an earlier one of its name.
package directory

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/freshet-io/freshet/internal/generation"
	"github.com/freshet-io/freshet/metadata/id"
)

// Directory is the directory under a prefix of etcd.
type Directory struct {
	Client *clientv3.Client // not closed
	Prefix string           // --etcd-prefix
}

func (d Directory) key(name string) string { return d.Prefix + "/+clusters/" + name }

// earlier is a key that a virtual cluster has in etcd if a program of an earlier generation wrote it, under its name.
func (d Directory) earlier(name string) string { return d.Prefix + "/" + name + "/tail" }

// errNoID is the base of the error of a value that is no id.
var errNoID = errors.New("malformed cluster id")

// Final reports whether Resolve would return the same error again.
func Final(err error) bool { return errors.Is(err, generation.ErrOther) || errors.Is(err, errNoID) }

// Resolve returns the id of a virtual cluster, and stores a random one if it has none. All replicas get the same. It returns an error
// of etcd, generation.ErrOther, or that of a malformed id.
func (d Directory) Resolve(ctx context.Context, name string) (string, error) {
	fresh := id.NewCluster()
	resp, err := d.Client.Txn(ctx).
		If(
			clientv3.Compare(clientv3.CreateRevision(d.key(name)), "=", 0),
			clientv3.Compare(clientv3.CreateRevision(d.earlier(name)), "=", 0),
		).
		Then(clientv3.OpPut(d.key(name), fresh)).
		Else(clientv3.OpGet(d.key(name))).
		Commit()
	if err != nil {
		return "", fmt.Errorf("look for the id of virtual cluster %s in etcd: %w", name, err)
	}
	if resp.Succeeded {
		return fresh, nil
	}
	kvs := resp.Responses[0].GetResponseRange().Kvs
	if len(kvs) == 0 {
		return "", fmt.Errorf("%s: %w: run the program that wrote it, or begin with an empty bucket prefix, etcd prefix and data directory",
			d.earlier(name), generation.ErrOther)
	}
	found := string(kvs[0].Value)
	if !id.ValidCluster(found) {
		return "", fmt.Errorf("etcd key %s holds %q: %w: put back the id that `freshet bucket show` prints", d.key(name), found, errNoID)
	}
	return found, nil
}
