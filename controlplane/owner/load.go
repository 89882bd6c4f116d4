package owner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/freshet-io/freshet/internal/topicconfig"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/metalog"
)

// ErrOverloaded is returned when the metadata is at a bound: Config.MaxExtents, MaxFresh or MaxBytes. Compaction, retention and deletion
// make room. A refused command had no effect.
var ErrOverloaded = errors.New("metadata is at its bound")

// The bounds of ErrOverloaded, with the remedy. Clients see these texts.
var (
	errExtents         = fmt.Errorf("%w of live extents: shorten retention, let more agents do background jobs, or raise --max-extents of every control plane", ErrOverloaded)
	errFresh           = fmt.Errorf("%w of bundles that were not compacted: let more agents do background jobs, or raise --max-fresh-bundles of every control plane", ErrOverloaded)
	errTopicsAndGroups = fmt.Errorf("%w of topics, configs, groups, offsets and transactions: delete unused ones (topics count until --topic-undelete is over), or have the operator raise --memory-limit of every control plane, or --memory of `freshet ctl cluster limit`", ErrOverloaded)
	errMarkers         = fmt.Errorf("%w of extents or memory by the markers of open transactions: add fewer partitions at once, let more agents do background jobs, or have the operator raise --max-extents and --memory-limit of every control plane, or --memory of `freshet ctl cluster limit`", ErrOverloaded)
	errMemory          = fmt.Errorf("%w of memory: shorten retention, delete topics (they count until --topic-undelete is over), or have the operator raise --memory-limit of every control plane, or --memory of `freshet ctl cluster limit`", ErrOverloaded)
)

// Shares of a bound at which the owner acts.
const (
	halfOfBound = 0.5  // the owner logs a warning
	slowFrom    = 0.75 // commits are delayed
)

// upTo is a kind of growth with the shares of a base beyond which it is refused.
type upTo struct {
	topicsAndGroups float64 // bounds metadata.Load.TopicsAndGroups
	all             float64 // bounds the whole state
	markers         float64 // the share of markersRoom; 0 for no bound
	of              base    // topicsAndGroups and all are shares of it
}

// base is a number of bytes that upTo has shares of.
type base int

const (
	ofNew      base = iota // MaxBytes times forNew of Config.MemoryRoom
	ofExisting             // MaxBytes times forExisting of Config.MemoryRoom
	ofAll                  // MaxBytes
)

// The bounds by kind of growth. Topic and group metadata takes at most 9/16 of MaxBytes, except for configs of retention. The other 7/16 are
// left to commits, which also use the memory that topic and group metadata does not use. When commits have filled MaxBytes, groups and
// offsets can still grow by an eighth of MaxBytes.
//
// If other virtual clusters fill the memory, consumers must still be able to restart, and users to shorten retention. So MemoryRoom lowers the bound of
// existing only while the memory is full. It never lowers the bound of retention, which is a few bytes for each topic.
var (
	commits   = upTo{topicsAndGroups: 1, all: 1}
	newTopics = upTo{topicsAndGroups: 0.5, all: 1}                             // and partitions
	newGroups = upTo{topicsAndGroups: 0.5, all: 1.125}                         // and transactional IDs and configs
	existing  = upTo{topicsAndGroups: 0.5 * 1.125, all: 1.125, of: ofExisting} // groups and transactional IDs: their members, offsets and open transactions
	markers   = upTo{topicsAndGroups: 1, all: 1.125}                           // of WriteTxnMarkers. Those of EndTransaction were reserved by AddPartitions
	retention = upTo{topicsAndGroups: 1.25, all: 1.25, of: ofAll}              // configs of topics by which they keep fewer records
)

// size is the load of the newest applied state, and the warnings about it. The state takes memory on every replica, and time at a takeover.
// Commits make it grow fastest, so only commits are delayed, and only those of this virtual cluster (I10). The share of memory is of the
// part that topic and group metadata leaves to commits, so topic and group metadata alone delays no commit.
type size struct {
	load    atomic.Pointer[metadata.Load] // set by weigh
	offsets atomic.Int64                  // bytes of offsets that no limit of the state refuses
	// warned is the level of the last warning: 0, halfOfBound or slowFrom. Only the apply goroutine uses it.
	warned float64
	// crowded reports whether the warning about producers was logged. Only the apply goroutine uses it.
	crowded bool
	// limits bounds the warnings about limits of the state.
	limits rate.Sometimes
}

// Slows reports whether commits are delayed, or would be soon: the load is at 3/4 of a bound, or the log above its soft limit.
func (o *Owner) Slows() bool { return o.share(o.size.load.Load()) >= slowFrom || o.delay() > 0 }

// share returns the largest share of a bound that a state with this load uses, 1 at the bound. It also changes with Config.MemoryRoom.
func (o *Owner) share(load *metadata.Load) float64 {
	return max(o.extentsShare(load), o.freshShare(load), o.memoryShare(load.MemoryBytes(), load.TopicsAndGroups))
}

func (o *Owner) extentsShare(load *metadata.Load) float64 {
	return float64(load.Extents) / float64(o.cfg.MaxExtents)
}

func (o *Owner) freshShare(load *metadata.Load) float64 {
	return float64(load.Fresh) / float64(o.cfg.MaxFresh)
}

// maxBytes returns the current bound of commits and new topics and groups in the state's memory, or 0 for none.
func (o *Owner) maxBytes() float64 { return o.bytesOf(ofNew) }

// bytesOf returns the current bytes of a base, or 0 without a bound.
func (o *Owner) bytesOf(b base) float64 {
	if o.cfg.MaxBytes == 0 {
		return 0
	}
	forNew, forExisting := o.cfg.MemoryRoom()
	factors := [...]float64{ofNew: forNew, ofExisting: forExisting, ofAll: 1}
	return max(1, factors[b]*float64(o.cfg.MaxBytes))
}

// weigh updates size and the metrics after commands were applied, and logs a warning if the largest share reaches a level.
func (o *Owner) weigh() {
	load := o.state.Load()
	o.size.load.Store(&load)
	bytes, share := load.MemoryBytes(), o.share(&load)
	o.metrics.bytes.Set(float64(bytes))
	o.metrics.partitions.Set(float64(load.Partitions))
	o.metrics.extents.Set(float64(load.Extents))
	o.metrics.fresh.Set(float64(load.Fresh))
	o.metrics.bundles.Set(float64(load.Bundles))
	o.metrics.share.Set(share)
	o.weighProducers(load, o.state.ProducerLimit())
	o.weighLimits(load.TopicsAndGroups)
	level := 0.0
	switch {
	case share >= slowFrom:
		level = slowFrom
	case share >= halfOfBound:
		level = halfOfBound
	case share >= halfOfBound*0.9:
		level = min(o.size.warned, halfOfBound) // hysteresis: a share around halfOfBound is logged once
	}
	if level > o.size.warned {
		o.cfg.Logger.Warn("metadata grows towards its bound: from 0.75 of it commits are delayed, at 1 refused; "+
			"let more agents do background jobs, shorten retention, delete topics (they count until --topic-undelete is over), "+
			"give every replica more memory, or raise --max-extents and --max-fresh-bundles",
			zap.Float64("share", share), zap.Int64("extents", load.Extents), zap.Int64("max_extents", o.cfg.MaxExtents),
			zap.Int("fresh_bundles", load.Fresh), zap.Int("max_fresh_bundles", o.cfg.MaxFresh),
			zap.Int64("partitions", load.Partitions), zap.Int64("memory_bytes", bytes), zap.Int64("max_memory_bytes", int64(o.maxBytes())))
	}
	o.size.warned = level
}

// memoryShare returns the share of the memory left to commits that is used. It is 0 without a bound, and 1 if bytes is the bound.
func (o *Owner) memoryShare(bytes, topicsAndGroups int64) float64 {
	bound := o.maxBytes()
	if bound == 0 {
		return 0
	}
	kept := min(float64(topicsAndGroups), existing.topicsAndGroups*bound)
	return (float64(bytes) - kept) / (bound - kept)
}

// markersRoom returns the number of partitions that transactions can add before the markers of all open transactions take a share of the
// extents, or of the memory that topic and group metadata leaves to commits. bound is maxBytes.
func (o *Owner) markersRoom(load *metadata.Load, share, bound float64) int64 {
	room := share*float64(o.cfg.MaxExtents) - float64(load.Extents)
	if bound > 0 {
		kept := min(float64(load.TopicsAndGroups), existing.topicsAndGroups*bound)
		room = min(room, (share*(bound-kept)-(float64(load.MemoryBytes())-kept))/metadata.ExtentBytes)
	}
	return int64(room) - load.Added
}

// weighProducers updates the metrics of producers, and logs a warning if the active ones reach slowFrom of their limit.
func (o *Owner) weighProducers(load metadata.Load, limit int64) {
	share := float64(load.Producers) / float64(limit)
	o.metrics.producers.Set(float64(load.Producers))
	o.metrics.resting.Set(float64(load.Resting))
	o.metrics.remembered.Set(float64(load.ProducerBytes()))
	o.metrics.crowding.Set(share)
	full := share >= slowFrom
	if full && !o.size.crowded {
		o.cfg.Logger.Warn("active producers grow towards their bound, at which new ones are refused: let clients reuse their producers "+
			"instead of starting one for each call, or raise --max-producers",
			zap.Float64("share", share), zap.Int("producers", load.Producers), zap.Int64("max_producers", limit))
	}
	o.size.crowded = full || o.size.crowded && share >= slowFrom*0.9
}

// admit refuses a command that would grow the state beyond a bound. Above slowFrom it delays commits, in proportion to the share.
// The growth of an admitted proposal stays reserved until its answer, so concurrent commands do not exceed the bound together.
// Errors: ErrOverloaded, ErrNotOwner, the context's.
func (o *Owner) admit(ctx context.Context, p *Proposal) error {
	switch c := p.cmd.(type) {
	case *metadata.CommitBundle:
		return o.admitCommit(ctx, p)
	case *metadata.CreateTopic, *metadata.CreatePartitions:
		return o.admitGrowth(p, newTopics)
	case *metadata.UpdateGroup:
		if c.Kind == metadata.GroupNone {
			return nil // removes its members
		}
		return o.admitGrowth(p, newGroups)
	case *metadata.SetConfigs:
		switch {
		case c.Resource == metadata.ConfigBroker: // of the cluster: at most metadata.MaxConfigBytes
			return nil
		case c.Resource == metadata.ConfigTopic && makesRoom(c):
			return o.admitGrowth(p, retention)
		}
		return o.admitGrowth(p, newGroups)
	case *metadata.CommitOffsets, *metadata.InitTransaction:
		return o.admitGrowth(p, newGroups)
	case *metadata.AddPartitions:
		return o.admitPartitions(p, c)
	case *metadata.AddOffsets:
		return o.admitGrowth(p, existing)
	case *metadata.WriteMarkers:
		return o.admitGrowth(p, markers)
	}
	return nil
}

// fewPartitions is the largest number of partitions of a transaction while commits are delayed. More are refused then, and before their markers
// delay commits: a request of 4 bytes a partition would fill the extents of all clients. Few ones cost a client as much as commits do, and are
// refused at fewUpTo.
const (
	fewPartitions = 100
	fewUpTo       = 0.9375
)

// admitPartitions reserves the growth of a transaction by partitions, or returns ErrOverloaded at a bound.
func (o *Owner) admitPartitions(p *Proposal, c *metadata.AddPartitions) error {
	to := existing
	to.markers = slowFrom
	if o.reserve(p, metadata.GrowthOf(c), to) == nil {
		return nil
	}
	var growth metadata.Growth
	var partitions int64
	if _, ok := o.readLocked(func(s *metadata.State) {
		growth, _ = s.GrowthHere(c)
		partitions = s.PartitionsOf(c.TransactionalID)
	}); !ok {
		return ErrNotOwner
	}
	if partitions+growth.Added <= fewPartitions {
		to.markers = fewUpTo
	}
	return o.reserve(p, growth, to)
}

// makesRoom reports whether a command sets nothing but configs by which a topic gives up records: a few bytes for each topic.
func makesRoom(c *metadata.SetConfigs) bool {
	for name := range c.Set {
		switch name {
		case topicconfig.RetentionMs, topicconfig.RetentionBytes, topicconfig.CleanupPolicy:
		default:
			return false
		}
	}
	return metadata.GrowthOf(c).Bytes <= 512
}

// admitGrowth reserves the growth of a proposal, or returns ErrOverloaded at a bound. If the estimate from the command alone exceeds the bound,
// admitGrowth asks the state, which knows that an overwritten offset is no growth.
func (o *Owner) admitGrowth(p *Proposal, to upTo) error {
	growth := metadata.GrowthOf(p.cmd)
	err := o.reserve(p, growth, to)
	if err == nil {
		return nil
	}
	exists := false
	if _, ok := o.readLocked(func(s *metadata.State) { growth, exists = s.GrowthHere(p.cmd) }); !ok {
		return ErrNotOwner
	}
	switch {
	case growth.Bytes <= 0:
		return o.queue.reserveAnew(p, metadata.GrowthOf(p.cmd).Bytes, o.cfg.MaxBytes/anewShare)
	case exists:
		return o.reserve(p, growth, existing)
	}
	return err
}

// anewShare is the part of MaxBytes that commands in flight can replace in topic and group metadata at its bound, each at least once. Behind another command in
// flight that removes what a command replaces, the command grows the state.
const anewShare = 256

// countRefusal counts an error that Enqueue or EnqueueRun returns instead of admitting a command.
func (o *Owner) countRefusal(err error) {
	switch {
	case errors.Is(err, ErrOverloaded):
		o.metrics.overloaded.Inc()
	case errors.Is(err, metalog.ErrLogFull):
		o.metrics.refused.Inc()
	}
}

// reserve reserves the growth of a proposal, or returns the ErrOverloaded of the bound that has no room. It reads the load under the queue's lock. The
// apply goroutine stores a new load before it releases the growth of the applied proposals. So their growth counts in the load, as reserved, or in both.
func (o *Owner) reserve(p *Proposal, growth metadata.Growth, to upTo) error {
	forCommits, bytes := o.maxBytes(), o.bytesOf(to.of)
	err := o.queue.reserve(growth, func() room { return o.roomOf(o.size.load.Load(), to, forCommits, bytes) })
	if err == nil {
		p.growth = growth
	}
	return err
}

// roomOf returns the room for a kind of growth in a state with this load. forCommits is maxBytes, and bytes is the base of the kind (bytesOf).
func (o *Owner) roomOf(load *metadata.Load, to upTo, forCommits, bytes float64) room {
	r := room{bytes: math.MaxInt64, topicsAndGroups: math.MaxInt64, markers: math.MaxInt64, empty: load.Empty}
	if to.markers > 0 {
		r.markers = o.markersRoom(load, to.markers, forCommits)
	}
	if bytes > 0 {
		r.bytes, r.topicsAndGroups = int64(to.all*bytes)-load.MemoryBytes(), int64(to.topicsAndGroups*bytes)-load.TopicsAndGroups
	}
	return r
}

// shareWith returns the largest share of a bound that is used once the admitted commands and one with this growth are applied to a state with this load.
func (o *Owner) shareWith(load *metadata.Load, growth metadata.Growth) float64 {
	growth = o.queue.with(growth)
	return max(o.share(load), o.memoryShare(load.MemoryBytes()+growth.Memory(load.Empty), load.TopicsAndGroups+growth.TopicsAndGroups))
}

// admitCommit delays or refuses a commit, as admit describes. It refuses at once if the applied state is at a bound. If only commits in
// flight fill the rest, it first delays the commit, since some of them may need less than their reserved growth.
func (o *Owner) admitCommit(ctx context.Context, p *Proposal) error {
	load, growth := o.size.load.Load(), metadata.GrowthOf(p.cmd)
	share := o.shareWith(load, growth)
	switch {
	case o.share(load) >= 1:
		return o.refusedCommit(load)
	case share <= slowFrom && o.reserve(p, growth, commits) == nil:
		return nil
	}
	d := time.Duration(max(0, min(1, (share-slowFrom)/(1-slowFrom))) * float64(o.cfg.MaxDelay))
	o.metrics.slowed.Add(d.Seconds())
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return fmt.Errorf("held back: %w", ctx.Err())
	case <-o.done:
		return ErrNotOwner
	case <-timer.C:
	}
	load = o.size.load.Load()
	if o.share(load) >= 1 || o.reserve(p, growth, commits) != nil { // other commits were delayed beside this one
		return o.refusedCommit(load)
	}
	return nil
}

// refusedCommit returns the ErrOverloaded of the bound that a state with this load has reached.
func (o *Owner) refusedCommit(load *metadata.Load) error {
	switch {
	case o.extentsShare(load) >= 1:
		return errExtents
	case o.freshShare(load) >= 1:
		return errFresh
	default: // the state and the growth of the commands in flight
		return errMemory
	}
}
