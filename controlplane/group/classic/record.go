package classic

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
)

// ErrMalformedRecord is what DecodeRecord gives for bytes that AppendRecord did not write.
var ErrMalformedRecord = errors.New("classic: malformed group record")

const recordVersion = 1

// Least bytes of a member and of a protocol in a record: what bounds the counts read from one.
const (
	minMemberBytes   = 8
	minProtocolBytes = 2
)

// Record is what is durable of a group: the Head of metadata.UpdateGroup (see the package comment for its bytes).
type Record struct {
	StateMs      int64  // when the group came into its state, ms since the epoch
	Generation   int32  // 0 before the first one
	ProtocolType string // "consumer" for consumers; "" for a group that never had members
	Protocol     string // chosen by the generation's votes; "" while the group has no members
	Leader       string // member id; "" for none
	Members      []Member
}

// Member is what is durable of a member.
type Member struct {
	ID               string
	Instance         *string // group.instance.id of a static member, nil for a dynamic one (KIP-345)
	ClientID         string
	ClientHost       string
	RebalanceTimeout time.Duration // whole ms
	SessionTimeout   time.Duration // whole ms
	Protocols        []Protocol    // in the member's order of preference, at least one
	Assignment       []byte        // what the leader gave it; empty for none
}

// Weight returns about the bytes of the member.
func (m *Member) Weight() int {
	n := MemberOverhead + len(m.ID) + len(m.ClientID) + len(m.ClientHost) + protocolBytes(m.Protocols) + len(m.Assignment)
	if m.Instance != nil {
		n += len(*m.Instance)
	}
	return n
}

// Protocol is one way of assigning that a member can follow, with what it tells the leader about itself.
type Protocol struct {
	Name     string
	Metadata []byte
}

// Metadata gives what the member says under a protocol.
func (m *Member) Metadata(protocol string) ([]byte, bool) {
	for _, p := range m.Protocols {
		if p.Name == protocol {
			return p.Metadata, true
		}
	}
	return nil, false
}

// AppendRecord appends the record's bytes.
func AppendRecord(dst []byte, r *Record) []byte {
	dst = append(dst, recordVersion)
	dst = binary.AppendVarint(dst, r.StateMs)
	dst = binary.AppendUvarint(dst, uint64(uint32(r.Generation)))
	dst = appendString(dst, r.ProtocolType)
	dst = appendString(dst, r.Protocol)
	dst = appendString(dst, r.Leader)
	dst = binary.AppendUvarint(dst, uint64(len(r.Members)))
	for i := range r.Members {
		dst = appendMember(dst, &r.Members[i])
	}
	return dst
}

func appendMember(dst []byte, m *Member) []byte {
	dst = appendString(dst, m.ID)
	if m.Instance == nil {
		dst = append(dst, 0)
	} else {
		dst = appendString(append(dst, 1), *m.Instance)
	}
	dst = appendString(dst, m.ClientID)
	dst = appendString(dst, m.ClientHost)
	dst = binary.AppendUvarint(dst, uint64(m.RebalanceTimeout.Milliseconds()))
	dst = binary.AppendUvarint(dst, uint64(m.SessionTimeout.Milliseconds()))
	dst = binary.AppendUvarint(dst, uint64(len(m.Protocols)))
	for _, p := range m.Protocols {
		dst = appendString(dst, p.Name)
		dst = appendBytes(dst, p.Metadata)
	}
	return appendBytes(dst, m.Assignment)
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// DecodeRecord reads what AppendRecord wrote. Metadata and assignments alias p, strings are copies; what it allocates is
// bounded by a small multiple of len(p). Errors: ErrMalformedRecord.
func DecodeRecord(p []byte) (Record, error) {
	in := reader{b: p}
	if v := in.byte(); v != recordVersion {
		in.fail("version %d", v)
	}
	r := Record{
		StateMs: in.varint(), Generation: int32(in.bounded(math.MaxInt32)),
		ProtocolType: in.string(), Protocol: in.string(), Leader: in.string(),
	}
	n := in.count(minMemberBytes)
	ids := make(map[string]bool, n)
	for range n {
		m := in.member(r.Protocol)
		if ids[m.ID] {
			in.fail("member %q twice", m.ID)
		}
		if in.err != nil {
			break
		}
		ids[m.ID] = true
		r.Members = append(r.Members, m)
	}
	if len(in.b) > 0 {
		in.fail("%d bytes too many", len(in.b))
	}
	if in.err != nil {
		return Record{}, fmt.Errorf("%w: %w", ErrMalformedRecord, in.err)
	}
	return r, nil
}

// reader takes a record apart and remembers its first failure; after it, it gives zeroes.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
	r.b = nil
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail("too short")
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail("bad number")
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) bounded(limit uint64) uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > limit {
		r.fail("bad number")
		return 0
	}
	r.b = r.b[n:]
	return v
}

// count reads how many elements of at least size bytes follow.
func (r *reader) count(size int) int { return int(r.bounded(uint64(len(r.b) / size))) }

func (r *reader) bytes() []byte {
	n := r.count(1)
	if n > len(r.b) {
		r.fail("too short")
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) string() string { return string(r.bytes()) }

func (r *reader) millis() time.Duration {
	return time.Duration(r.bounded(math.MaxInt32)) * time.Millisecond
}

func (r *reader) member(protocol string) Member {
	m := Member{ID: r.string()}
	switch r.byte() {
	case 0:
	case 1:
		instance := r.string()
		m.Instance = &instance
	default:
		r.fail("bad flag")
	}
	m.ClientID, m.ClientHost = r.string(), r.string()
	m.RebalanceTimeout, m.SessionTimeout = r.millis(), r.millis()
	n := r.count(minProtocolBytes)
	m.Protocols = make([]Protocol, 0, n)
	for range n {
		m.Protocols = append(m.Protocols, Protocol{Name: r.string(), Metadata: r.bytes()})
	}
	m.Assignment = r.bytes()
	if _, ok := m.Metadata(protocol); !ok {
		r.fail("member %q does not know protocol %q", m.ID, protocol)
	}
	return m
}
