package agent

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/agent/edge"
)

// Shares of the memory limit, in percent. The rest is for the program itself and the garbage
// collector. Write buffers are slabs of record bytes plus what waits to be copied into them: produce frames, and batches that
// were compressed anew; the budgets of other frames and of background jobs come out of the rest. So do
// connections of Kafka clients.
const (
	liveCachePercent     = 40
	slabsPercent         = 18
	produceFramesPercent = 6
	recodedPercent       = 1
	catchUpPercent       = 10
	unsentPercent        = 10
	otherFramesPercent   = 2
	jobsPercent          = 3
)

// minMemory is the least an agent can work with: room for a bundle being filled, one being put, and one being read.
const minMemory = 128 << 20

// budgets are the parts of the memory limit, bytes.
type budgets struct {
	live          int64 // cache of bytes written or read at the live edge
	catchUp       int64 // cache of bytes read behind it
	slabs         int64 // record bytes between socket and object store
	produceFrames int64 // produce requests not yet copied into slabs
	recoded       int64 // batches compressed anew, not yet copied into slabs
	otherFrames   int64 // all other requests
	unsent        int64 // record bytes of answers that clients have not taken yet
	jobs          int64 // background jobs: inputs, keys, parts of outputs
}

// divide gives each part its share of the limit.
func divide(limit int64) (budgets, error) {
	if limit < minMemory {
		return budgets{}, fmt.Errorf("memory limit of %d bytes is below the least, %d", limit, minMemory)
	}
	share := func(percent int64) int64 { return limit / 100 * percent }
	return budgets{
		live:          share(liveCachePercent),
		catchUp:       share(catchUpPercent),
		slabs:         share(slabsPercent),
		produceFrames: share(produceFramesPercent),
		recoded:       share(recodedPercent),
		otherFrames:   share(otherFramesPercent),
		unsent:        share(unsentPercent),
		jobs:          share(jobsPercent),
	}, nil
}

// Shares of connections of Kafka clients, if MaxConnections is 0.
const (
	connectionsMemoryShare = 8 // one in so many bytes of the memory limit
	connectionsFilesShare  = 4 // all open files but one in so many
)

// EffectiveMaxConnections returns MaxConnections. Its default is edge.DefaultMaxConnections, or fewer, so that idle connections take
// at most an eighth of the memory limit, and three quarters of the open files.
func (c *Config) EffectiveMaxConnections() int {
	if c.MaxConnections > 0 {
		return c.MaxConnections
	}
	most := min(edge.DefaultMaxConnections, c.MemoryLimit/connectionsMemoryShare/edge.IdleConnectionBytes)
	if c.OpenFiles > 0 {
		most = min(most, c.filesForConnections())
	}
	return int(max(most, 1))
}

// filesForConnections returns the share of the open files that connections of Kafka clients may take.
func (c *Config) filesForConnections() int64 { return c.OpenFiles - c.OpenFiles/connectionsFilesShare }

// warnOfFiles warns of a limit of open files that lowers the bound of connections, or is below it.
func (c *Config) warnOfFiles() {
	unlimited := *c
	unlimited.OpenFiles = 0
	if wanted := int64(unlimited.EffectiveMaxConnections()); c.OpenFiles > 0 && wanted > c.filesForConnections() {
		c.Log.Warn("the limit of open files is low for the connections of Kafka clients: raise it (ulimit -n, LimitNOFILE) or lower --max-connections",
			zap.Int64("open_files", c.OpenFiles), zap.Int64("connections_without_this_limit", wanted), zap.Int("max_connections", c.EffectiveMaxConnections()))
	}
}
