package marker

import (
	"cmp"
	"fmt"
)

// WrongError is returned for a bucket that does not belong to the virtual cluster that a process serves. Its text is one line
// that names the setting, its value and the remedy.
type WrongError struct {
	Setting        string // of the bucket; "" means --bucket
	Location       string // of the bucket, as the setting has it, without secrets
	VirtualCluster string
	Found          Marker // with an empty id if there is none
	Expected       string // cluster id; "" if the metadata has none yet
	Holder         string // what has the expected id, as "the control plane"
	Object         string // that is there, or missing, beside the marker; "" if the marker says it all
	Remedy         string // in the imperative
}

func (w *WrongError) Error() string {
	setting := cmp.Or(w.Setting, "--bucket")
	bucket := setting + " " + w.Location
	switch {
	case w.Found.MovedTo != "":
		return fmt.Sprintf("%s: virtual cluster %q was moved to %s: set %s to that", bucket, w.VirtualCluster, w.Found.MovedTo, setting)
	case w.Object != "":
		return fmt.Sprintf("%s has no object %s, which %s refers to for virtual cluster %q: %s",
			bucket, w.Object, w.Holder, w.VirtualCluster, w.Remedy)
	case w.Found.ClusterID == "":
		return fmt.Sprintf("%s has no object %s, but %s has cluster id %s for virtual cluster %q: %s",
			bucket, Key(w.VirtualCluster), w.Holder, w.Expected, w.VirtualCluster, w.Remedy)
	case w.Found.ClusterID == w.Expected:
		return fmt.Sprintf("%s holds virtual cluster %q, but the records are in another bucket: %s", bucket, w.VirtualCluster, w.Remedy)
	case w.Expected == "":
		return fmt.Sprintf("%s holds virtual cluster %q with cluster id %s, but %s has no cluster of that name: %s",
			bucket, w.VirtualCluster, w.Found.ClusterID, w.Holder, w.Remedy)
	}
	return fmt.Sprintf("%s holds virtual cluster %q with cluster id %s, but %s has cluster id %s: %s",
		bucket, w.VirtualCluster, w.Found.ClusterID, w.Holder, w.Expected, w.Remedy)
}
