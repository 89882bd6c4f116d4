package replica

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/snapshot"
)

// OlderError is returned when the bucket holds a snapshot of an entry that the log has lost, for example after a restore of etcd. An owner
// of this log would assign the offsets of acknowledged records again, so the replica ends.
type OlderError struct {
	Tail     uint64           // index of the log's last entry
	Newer    []snapshot.Found // above Tail, in order of index; at least one
	Location string           // Config.BucketLocation
}

// namedSnapshots bounds how many snapshots the error names. The bucket holds two, and those of failed attempts.
const namedSnapshots = 4

func (e *OlderError) Error() string {
	names := make([]string, 0, namedSnapshots)
	for i := len(e.Newer) - 1; i >= 0 && len(names) < namedSnapshots; i-- {
		names = append(names, e.Newer[i].Name)
	}
	more := ""
	if n := len(e.Newer) - len(names); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("metadata is older than --bucket %s: the log ends at entry %d, but the bucket has a snapshot of entry %d "+
		"(%s%s). The owner would assign offsets of acknowledged records again. Restore a newer backup of etcd; "+
		"docs/etcd.md describes how to accept the loss",
		e.Location, e.Tail, e.Newer[len(e.Newer)-1].Index, strings.Join(names, ", "), more)
}

// olderTimeout bounds the listing of snapshots. If the store does not answer in time, the replica gives up ownership.
const olderTimeout = 3 * time.Second

// refuseOlder returns an *OlderError if the bucket has a snapshot above the log's tail. tail is any earlier tail of the log. After another
// error the replica retries.
//
// A snapshot is written only after its entry is in the log. So refuseOlder lists first and reads the tail afterwards: if the log has lost
// nothing, that tail is at or above every listed snapshot, whoever wrote it.
func (r *Replica) refuseOlder(ctx context.Context, tail uint64) error {
	listing, cancel := context.WithTimeout(ctx, olderTimeout)
	defer cancel()
	newer, err := snapshot.Newer(listing, r.cfg.Bucket, r.cfg.SnapshotPrefix, tail)
	if err != nil {
		return fmt.Errorf("look for snapshots that are newer than the log: %w", err)
	}
	if len(newer) == 0 {
		return nil
	}
	st, err := r.cfg.Log.Status(ctx)
	if err != nil {
		return err
	}
	for len(newer) > 0 && newer[0].Index <= st.Tail {
		newer = newer[1:]
	}
	if len(newer) == 0 {
		return fmt.Errorf("%w: the log went on to entry %d", metalog.ErrFenced, st.Tail)
	}
	if err := r.cfg.ConfirmBucket(ctx); err != nil {
		return err
	}
	return &OlderError{Tail: st.Tail, Newer: newer, Location: r.cfg.BucketLocation}
}
