package replica

import (
	"time"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/snapshot"
)

// SetEncoder makes a replica that has not started write snapshots by another encoder.
func (r *Replica) SetEncoder(f func(*metadata.State) snapshot.Encoder) { r.encoder = f }

// SetWall gives a replica that has not started another machine's clock.
func (r *Replica) SetWall(wall func() time.Time) { r.clock.wall, r.clock.start.wall = wall, wall() }
