package agent

import "fmt"

// Shares of the memory limit, in percent. What is left is for the program itself and the garbage
// collector. Write buffers are slabs of record bytes plus what waits to be copied into them: produce frames, and batches that
// were compressed anew; the budgets of other frames and of background jobs come out of what is left.
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
	live          int64 // cache of what was written or read at the live edge
	catchUp       int64 // cache of what is read behind it
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
