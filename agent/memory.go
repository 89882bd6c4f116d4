package agent

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/agent/edge"
)

// Shares of the memory limit, in percent. A tenth is left for the program, the garbage collector and the parts that have a
// fixed bound:
//
//	decompression                8 MiB a CPU, twice, and one batch at a time with 128 MiB (recode)
//	encoded Metadata answers     32 MiB (kafka, maxListBytes)
//	placements of partitions     64 MiB, which 100,000 partitions in one view do not reach (kafka, maxViewBytes)
//	places of sequential readers 12 MiB (fetch, maxPlaces)
//	seek tables of objects       6 MiB (cache, maxSeeks)
//	IDs of producers             4 MiB (kafka, maxKnownBytes)
//	lost extents                 3 MiB (fetch)
//	idle connections             an eighth of the limit (EffectiveMaxConnections)
//
// The bounds of the last list hold separately. An agent below 1 GiB exceeds its limit if clients reach several of them at once.
// Bodies of forwarded requests have the bounds of the session with the owner (controlplane/client). Large batches from other
// agents of the zone count as produce frames, and are bounded once more by that share.
//
// Write buffers are slabs of record bytes and the bytes that wait to be copied into slabs: produce frames, and batches that
// were compressed anew.
const (
	liveCachePercent     = 34
	slabsPercent         = 18
	produceFramesPercent = 6
	recodedPercent       = 1
	catchUpPercent       = 10
	unsentPercent        = 10
	otherFramesPercent   = 2
	jobsPercent          = 3
	fetchesPercent       = 3
	sessionsPercent      = 1
	extentsPercent       = 2
)

// minMemory is the minimum with which an agent works: a bundle being filled, one being put, and one being read.
const minMemory = 128 << 20

// extentBytes is the memory of an extent in the window of a partition.
const extentBytes = 56

// maxExtents bounds the extents in memory for any limit.
const maxExtents = 2_000_000

// budgets are the parts of the memory limit, in bytes unless the field says otherwise.
type budgets struct {
	live          int64 // cache of records written or read at the live edge
	catchUp       int64 // cache of records read behind the live edge
	slabs         int64 // record bytes between socket and object store
	produceFrames int64 // produce requests not yet copied into slabs
	recoded       int64 // batches compressed anew, not yet copied into slabs
	otherFrames   int64 // all other requests
	unsent        int64 // record bytes of answers that clients have not taken yet
	jobs          int64 // background jobs: inputs, keys, parts of outputs
	fetches       int64 // decoded fetches, until they are answered
	sessions      int64 // fetch sessions
	extents       int   // number of extents of recent bundles, for all partitions
}

// divide returns the shares of the limit.
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
		fetches:       share(fetchesPercent),
		sessions:      share(sessionsPercent),
		extents:       int(min(share(extentsPercent)/extentBytes, maxExtents)),
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
