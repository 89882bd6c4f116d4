package kafka

import (
	"bytes"
	"encoding/binary"
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/kafkaproto"
)

// spliceFrom is the least size in bytes of a part that is sent from where it is kept. Smaller ones are copied together,
// since a piece of its own costs a write more than copying that much.
const spliceFrom = 1 << 10

// copyChunk is the size in bytes from which on copied parts are a piece.
const copyChunk = 64 << 10

// encodeMetadata makes the answer to a request from encoded parts. topics[i] is what results[i] are about, where it is not a
// topic. The bytes are those of kmsg for the same answer.
func encodeMetadata(in *kmsg.MetadataRequest, s *view.Snapshot, zone *zoneView, topics []asked, results []found) edge.Reply {
	var out splice
	var errs []int16
	out.add(zone.encodedHead(in.Version, s.ClusterID))
	out.buf = appendMetadataCount(out.buf, in.Version, len(results))
	for i, r := range results {
		if r.topic != nil {
			out.add(zone.encodedTopic(r.topic, in.Version, in.IncludeTopicAuthorizedOperations))
			continue
		}
		refused := refusedTopic(topics[i], r.err)
		errs = append(errs, refused.ErrorCode)
		out.add(encodeMetadataTopic(in.Version, refused))
	}
	out.buf = appendMetadataEnd(out.buf, in.Version, in.IncludeClusterAuthorizedOperations)
	reply := out.reply()
	reply.Errors = errs
	return reply
}

// encodedHead gives what comes before the topics: the brokers, the cluster's id and the controller.
func (v *zoneView) encodedHead(version int16, cluster string) []byte {
	return v.parts.get(partKey{view: v, cluster: cluster, version: version}, func() []byte {
		out := kmsg.NewMetadataResponse()
		out.Version, out.Brokers, out.ControllerID = version, v.brokers, v.controller()
		if cluster != "" {
			out.ClusterID = &cluster
		}
		encoded := out.AppendTo(nil)
		return bytes.Clone(encoded[:len(encoded)-len(appendMetadataEnd(appendMetadataCount(nil, version, 0), version, false))])
	})
}

// encodedTopic gives a topic of the snapshot that the view is of.
func (v *zoneView) encodedTopic(t *view.Topic, version int16, operations bool) []byte {
	return v.parts.get(partKey{view: v, topic: t, version: version, operations: operations}, func() []byte {
		a := v.topic(t)
		if operations {
			a.AuthorizedOperations = allTopicOperations
		}
		return encodeMetadataTopic(version, a)
	})
}

// encodeMetadataTopic encodes one of an answer's topics: what an answer with it has more than one without.
func encodeMetadataTopic(version int16, t kmsg.MetadataResponseTopic) []byte {
	out := kmsg.NewMetadataResponse()
	out.Version = version
	without := len(out.AppendTo(nil))
	out.Topics = []kmsg.MetadataResponseTopic{t}
	with, end := out.AppendTo(nil), len(appendMetadataEnd(nil, version, false))
	return bytes.Clone(with[without-end : len(with)-end])
}

// flexibleMetadata tells whether a version has flexible encoding (KIP-482).
func flexibleMetadata(version int16) bool {
	entry, _ := kafkaproto.Lookup(kafkaproto.KeyMetadata)
	return entry.IsFlexible(version)
}

// appendMetadataCount appends the number of topics.
func appendMetadataCount(dst []byte, version int16, n int) []byte {
	if flexibleMetadata(version) {
		return binary.AppendUvarint(dst, uint64(n)+1)
	}
	return binary.BigEndian.AppendUint32(dst, uint32(n))
}

// appendMetadataEnd appends what comes behind the topics: the cluster's authorized operations, if told, no error and no
// tagged fields.
func appendMetadataEnd(dst []byte, version int16, operations bool) []byte {
	if version >= 8 && version <= 10 {
		bits := kmsg.NewMetadataResponse().AuthorizedOperations // of not telling
		if operations {
			bits = allClusterOperations
		}
		dst = binary.BigEndian.AppendUint32(dst, uint32(bits))
	}
	if version >= 13 {
		dst = binary.BigEndian.AppendUint16(dst, 0)
	}
	if flexibleMetadata(version) {
		dst = append(dst, 0)
	}
	return dst
}

// splice puts an answer together: buf is what was copied since the last piece.
type splice struct {
	pieces net.Buffers
	buf    []byte
}

// add adds a part that does not change any more.
func (s *splice) add(part []byte) {
	if len(part) >= spliceFrom {
		s.cut()
		s.pieces = append(s.pieces, part)
		return
	}
	if s.buf = append(s.buf, part...); len(s.buf) >= copyChunk {
		s.cut()
	}
}

func (s *splice) cut() {
	if len(s.buf) > 0 {
		s.pieces = append(s.pieces, s.buf)
		s.buf = nil
	}
}

func (s *splice) reply() edge.Reply {
	s.cut()
	return edge.Reply{Head: s.pieces[0], Tail: s.pieces[1:]}
}
