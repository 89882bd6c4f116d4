package metadata

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// cleanupConfigs are the configs that decide what retention and cleaning may remove, by their topic and broker names. A
// cleaning or a retention that was decided under other configs than the present ones has no effect, and a change of them
// ends open cleanings.
var cleanupConfigs = [...]struct{ topic, broker string }{
	{"cleanup.policy", "log.cleanup.policy"},
	{"delete.retention.ms", "log.cleaner.delete.retention.ms"},
	{"min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms"},
	{"retention.bytes", "log.retention.bytes"},
	{"retention.ms", "log.retention.ms"},
}

// CleanupConfigs returns a checksum of the effective configs of a topic that decide what retention and cleaning may
// remove, or false for an unknown topic. Commands decided by a snapshot of the state carry the checksum, so that Apply
// recognizes a change of configs that lies between.
func (s *machine) CleanupConfigs(t id.Topic) (sum uint64, ok bool) {
	e, ok := s.liveTopic(topicKey(t))
	if !ok {
		return 0, false
	}
	cluster, _ := s.configs.Get(configKey(ConfigBroker, ""))
	return cleanupSum(e.topic.Configs, cluster), true
}

func cleanupSum(topic, cluster map[string]string) uint64 {
	var sum xxhash.Digest
	sum.Reset()
	var b []byte
	for _, c := range cleanupConfigs {
		value, set := topic[c.topic]
		if !set {
			value, set = cluster[c.broker]
		}
		b = b[:0]
		if set {
			b = append(binary.AppendUvarint(b, uint64(len(value))+1), value...)
		} else {
			b = append(b, 0)
		}
		_, _ = sum.Write(b) // never fails
	}
	return sum.Sum64()
}

// refuseCleaning returns why a Clean job cannot be started, or nil if it can.
func (s *machine) refuseCleaning(c *StartJob) error {
	if s.cleaning(c.First, c.Last) {
		return ErrJobConflict
	}
	sum, ok := s.CleanupConfigs(c.First.Topic)
	if c.Clean == nil || !ok || sum != c.Clean.Configs || c.First != c.Last {
		return ErrConfigsChanged
	}
	return nil
}

// endCleanings ends the open Clean jobs for which ended returns true. Their outcomes have no effect from then on.
func (s *machine) endCleanings(ended func(j *openJob) bool) {
	var list []id.Session
	s.jobs.Scan(func(n id.Session, j *openJob) bool {
		if j.kind == job.Clean && ended(j) {
			list = append(list, n)
		}
		return true
	})
	for _, n := range list {
		s.endJob(n)
	}
}

// endCleaningsOf ends the open Clean jobs of a topic. Kafka aborts the cleaning of a topic that is deleted, or that is not
// compacted any more, before it answers (LogManager.updateTopicConfig, LogCleaner.abortCleaning).
func (s *machine) endCleaningsOf(t id.Topic) {
	s.endCleanings(func(j *openJob) bool { return j.first.Topic == t })
}

// endCleaningsUnder ends the open Clean jobs of topics whose configs are others under the new defaults of the cluster.
func (s *machine) endCleaningsUnder(old, changed map[string]string) {
	s.endCleanings(func(j *openJob) bool {
		e, ok := s.liveTopic(topicKey(j.first.Topic))
		return !ok || cleanupSum(e.topic.Configs, old) != cleanupSum(e.topic.Configs, changed)
	})
}

// LargestTimestamp returns the time by which an extent ages, in ms since the epoch: its largest record timestamp, or for
// records without any the command time at which they were appended, as LogSegment.largestTimestamp in Kafka falls back to
// the time at which the segment was modified. It is -1 if neither is known.
func (s *machine) LargestTimestamp(x *extent.Extent) int64 {
	if x.MaxTimestamp >= 0 || x.Kind == extent.Marker {
		return x.MaxTimestamp
	}
	if l, ok := s.bundles.Get(x.Bundle); ok && l.atMs > 0 {
		return l.atMs
	}
	return -1
}
