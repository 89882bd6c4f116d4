// Package id holds the identifiers that commands, state, objects and messages share. They are distinct types so
// that none is taken for another.
package id

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Topic is a topic's id, the UUID that Kafka clients see (KIP-516). The zero value is no topic.
type Topic [16]byte

// String gives the 32 hex digits of the id, as logs and object names show it.
func (t Topic) String() string { return hex.EncodeToString(t[:]) }

// TopicPartition names one partition of a topic. Partition counts from 0.
type TopicPartition struct {
	Topic     Topic
	Partition int32
}

// String gives topic-partition, for logs and errors.
func (p TopicPartition) String() string { return fmt.Sprintf("%s-%d", p.Topic, p.Partition) }

// Compare orders partitions by topic id, then by number.
func (p TopicPartition) Compare(q TopicPartition) int {
	for i := range p.Topic {
		if p.Topic[i] != q.Topic[i] {
			return int(p.Topic[i]) - int(q.Topic[i])
		}
	}
	return int(p.Partition) - int(q.Partition)
}

// Session is one life of an agent as the sequencer knows it. Sessions count from 1 and are never reused; 0 is none.
type Session uint32

// Submission names what an agent hands in for commit: the n-th of its session, n counting from 1. The bundle that
// holds the submission's batches has the same name, so a bundle's object key follows from it.
type Submission struct {
	Session Session
	N       uint32
}

// String gives session/n, as in the object key.
func (s Submission) String() string { return fmt.Sprintf("%d/%d", s.Session, s.N) }

// Bundle packs the submission's name: session in the upper, n in the lower 32 bits. The zero value is no bundle.
func (s Submission) Bundle() Bundle { return Bundle(uint64(s.Session)<<32 | uint64(s.N)) }

// Bundle is the compact name of one immutable object with record batches of many partitions.
type Bundle uint64

// ParseBundle parses the format of String, session/n. Neither number may be 0.
func ParseBundle(name string) (Bundle, error) {
	session, n, _ := strings.Cut(name, "/")
	s, err1 := strconv.ParseUint(session, 10, 32)
	m, err2 := strconv.ParseUint(n, 10, 32)
	if err := errors.Join(err1, err2); err != nil || s == 0 || m == 0 {
		return 0, fmt.Errorf("%q is not a bundle: want session/n, such as 12/345", name)
	}
	return Submission{Session: Session(s), N: uint32(m)}.Bundle(), nil
}

// Submission gives the name that the bundle was packed from.
func (b Bundle) Submission() Submission {
	return Submission{Session: Session(b >> 32), N: uint32(b)}
}

// String gives session/n, as in the object key.
func (b Bundle) String() string { return b.Submission().String() }
