package metadata

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/freshet-io/freshet/internal/generation"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/internal/wire"
)

// AppendBatch appends the batch's bytes, as they stand in the log. Equal batches give equal bytes.
//
//	generation  1 byte  generation.Number
//	now       zigzag  command time, ms since the epoch
//	count     varint
//	per command:
//	kind      1 byte  commandKind
//	length    varint  of the body
//	body              fields in the order of the type's declaration
//
// In bodies, strings and byte slices have their length in front, maps are sorted by key, ids are their 16 bytes,
// unsigned and signed integers are varints, signed ones zigzag.
func AppendBatch(dst []byte, b *Batch) []byte {
	dst = append(dst, generation.Number)
	dst = binary.AppendVarint(dst, b.Now)
	dst = binary.AppendUvarint(dst, uint64(len(b.Commands)))
	var body []byte
	for _, c := range b.Commands {
		dst = append(dst, byte(c.kind()))
		if commit, ok := c.(*CommitBundle); ok { // without copying it twice
			dst = wire.AppendBytes(dst, commit.Encoded)
			continue
		}
		body = appendCommand(body[:0], c)
		dst = wire.AppendBytes(dst, body)
	}
	return dst
}

func appendCommand(dst []byte, c Command) []byte {
	switch c := c.(type) {
	case *Bootstrap:
		return wire.AppendString(dst, c.ClusterID)
	case *RaiseVersion:
		return binary.AppendUvarint(dst, uint64(c.Version))
	case *CreateTopic:
		dst = append(dst, c.ID[:]...)
		dst = wire.AppendString(dst, c.Name)
		dst = binary.AppendVarint(dst, int64(c.Partitions))
		return appendStringMap(dst, c.Configs)
	case *DeleteTopic:
		dst = append(dst, c.ID[:]...)
		if c.kind() == kindDeleteTopic {
			return dst
		}
		return binary.AppendVarint(dst, c.KeepMs)
	case *CreatePartitions:
		dst = append(dst, c.ID[:]...)
		return binary.AppendVarint(dst, int64(c.Count))
	case *SetConfigs:
		return appendSetConfigs(dst, c)
	case *OpenSession:
		dst = wire.AppendString(dst, c.Instance)
		dst = wire.AppendString(dst, c.Zone)
		dst = appendEndpoints(dst, c.Endpoints)
		dst = wire.AppendString(dst, c.Version)
		if c.kind() == kindOpenSession {
			return dst
		}
		dst = wire.AppendString(dst, c.Peer)
		return append(dst, byte(c.Roles))
	case *DrainSession:
		return binary.AppendUvarint(dst, uint64(c.Session))
	case *CloseSession:
		return binary.AppendUvarint(dst, uint64(c.Session))
	case *AbandonSubmission:
		dst = binary.AppendUvarint(dst, uint64(c.Submission.Session))
		return binary.AppendUvarint(dst, uint64(c.Submission.N))
	case *AllocateProducerIDs:
		return binary.AppendVarint(dst, int64(c.Count))
	case *TrimPartitions:
		return appendTrims(dst, c.Trims)
	case *Tick:
		return dst
	case *CheckHash:
		dst = binary.AppendUvarint(dst, c.Index)
		return binary.LittleEndian.AppendUint64(dst, c.Hash)
	case bodyAppender:
		return c.appendBody(dst)
	default:
		panic(fmt.Sprintf("metadata: command %T", c))
	}
}

// bodyAppender is a command that has its codec beside it.
type bodyAppender interface{ appendBody(dst []byte) []byte }

func appendSetConfigs(dst []byte, c *SetConfigs) []byte {
	dst = append(dst, byte(c.Resource))
	dst = wire.AppendString(dst, c.Name)
	dst = append(dst, c.Topic[:]...)
	dst = appendStringMap(dst, c.Set)
	dst = binary.AppendUvarint(dst, uint64(len(c.Delete)))
	for _, k := range c.Delete {
		dst = wire.AppendString(dst, k)
	}
	return dst
}

func appendTrims(dst []byte, trims []Trim) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(trims)))
	for _, t := range trims {
		dst = append(dst, t.Partition.Topic[:]...)
		dst = binary.AppendVarint(dst, int64(t.Partition.Partition))
		dst = binary.AppendVarint(dst, t.Offset)
	}
	return dst
}

func appendStringMap(dst []byte, m map[string]string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(m)))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		dst = wire.AppendString(dst, k)
		dst = wire.AppendString(dst, m[k])
	}
	return dst
}

func appendEndpoints(dst []byte, endpoints []Endpoint) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(endpoints)))
	for _, e := range endpoints {
		dst = wire.AppendString(dst, e.Listener)
		dst = wire.AppendString(dst, e.Host)
		dst = binary.AppendVarint(dst, int64(e.Port))
	}
	return dst
}

// ParseBatch reads what AppendBatch wrote. CommitBundle.Encoded and CompleteJob.Outcome alias p; everything else is copied. What it
// allocates is bounded by a small multiple of len(p). Errors: ErrMalformedCommand; ErrUnsupported for kinds and
// versions that this program does not know, upon which a replica must stop. The commits inside are not looked into.
func ParseBatch(p []byte) (*Batch, error) {
	w := wire.NewReader(p)
	stored := w.Byte()
	if w.Err() != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformedCommand, w.Err())
	}
	if err := generation.Check(stored); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	b := &Batch{Now: w.Varint()}
	n := w.Count(2)
	if n > 0 {
		b.Commands = make([]Command, 0, n)
	}
	for range n {
		kind := commandKind(w.Byte())
		body := w.Bytes()
		if w.Err() != nil {
			break
		}
		c, err := parseCommand(kind, body)
		if err != nil {
			return nil, err
		}
		b.Commands = append(b.Commands, c)
	}
	if err := w.Done(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformedCommand, err)
	}
	return b, nil
}

func parseCommand(kind commandKind, body []byte) (Command, error) {
	if kind == kindCommitBundle {
		return &CommitBundle{Encoded: body}, nil
	}
	w := wire.NewReader(body)
	c := readCommand(kind, &w)
	if c == nil {
		return nil, fmt.Errorf("%w: command kind %d", ErrUnsupported, kind)
	}
	if err := w.Done(); err != nil {
		return nil, fmt.Errorf("%w: kind %d: %w", ErrMalformedCommand, kind, err)
	}
	if v, ok := c.(*RaiseVersion); ok && v.Version > MaxVersion {
		return nil, unsupportedVersion(v.Version)
	}
	return c, nil
}

// readCommand reads a body; nil if the kind is unknown.
func readCommand(kind commandKind, w *wire.Reader) Command {
	switch kind {
	case kindBootstrap:
		return &Bootstrap{ClusterID: w.String()}
	case kindRaiseVersion:
		return &RaiseVersion{Version: w.Uint32()}
	case kindCreateTopic:
		return &CreateTopic{ID: readTopicID(w), Name: w.String(), Partitions: w.Int32(), Configs: readStringMap(w)}
	case kindDeleteTopic:
		return &DeleteTopic{ID: readTopicID(w)}
	case kindCreatePartitions:
		return &CreatePartitions{ID: readTopicID(w), Count: w.Int32()}
	case kindSetConfigs:
		return readSetConfigs(w)
	case kindOpenSession:
		return readOpenSession(w)
	case kindOpenSessionOfRoles:
		c := readOpenSession(w)
		c.Peer, c.Roles = w.String(), Roles(w.Byte())
		return c
	case kindDrainSession:
		return &DrainSession{Session: id.Session(w.Uint32())}
	case kindCloseSession:
		return &CloseSession{Session: id.Session(w.Uint32())}
	case kindAbandonSubmission:
		return &AbandonSubmission{Submission: id.Submission{Session: id.Session(w.Uint32()), N: w.Uint32()}}
	case kindAllocateProducerIDs:
		return &AllocateProducerIDs{Count: w.Int32()}
	case kindTrimPartitions:
		return readTrims(w)
	case kindTick:
		return &Tick{}
	case kindCheckHash:
		return &CheckHash{Index: w.Uvarint(), Hash: readUint64(w)}
	case kindUpdateGroup:
		return readUpdateGroup(w)
	case kindDeleteGroup:
		return &DeleteGroup{Group: w.String()}
	case kindCommitOffsets:
		return readCommitOffsets(w)
	case kindDeleteOffsets:
		return readDeleteOffsets(w)
	case kindForgetBundles:
		return &ForgetBundles{Bundles: readBundles(w)}
	case kindHideSession:
		return &HideSession{Session: id.Session(w.Uint32()), Hidden: w.Bool()}
	case kindRecordSweep:
		return readRecordSweep(w)
	case kindLimitProducers:
		return &LimitProducers{Active: w.Offset()}
	case kindDeleteTopicKeeping:
		return readDeleteTopicKeeping(w)
	case kindUndeleteTopic:
		return &UndeleteTopic{ID: readTopicID(w), Name: w.String()}
	case kindPurgeTopics:
		return readPurgeTopics(w)
	case kindStartJob:
		return readStartJob(w)
	case kindStartCleaning:
		return readStartCleaning(w)
	case kindRetainPartitions:
		return readRetainPartitions(w)
	case kindCompleteJob:
		return &CompleteJob{Job: id.Session(w.Uint32()), Last: w.Bool(), Outcome: w.Bytes()}
	case kindAbortJob:
		return &AbortJob{Job: id.Session(w.Uint32())}
	default:
		return readTransactionCommand(kind, w)
	}
}

func readOpenSession(w *wire.Reader) *OpenSession {
	return &OpenSession{Instance: w.String(), Zone: w.String(), Endpoints: readEndpoints(w), Version: w.String()}
}

func readSetConfigs(w *wire.Reader) *SetConfigs {
	c := &SetConfigs{Resource: ConfigResource(w.Byte()), Name: w.String(), Topic: readTopicID(w), Set: readStringMap(w)}
	if n := w.Count(1); n > 0 {
		c.Delete = make([]string, 0, n)
		for range n {
			c.Delete = append(c.Delete, w.String())
		}
	}
	return c
}

func readTrims(w *wire.Reader) *TrimPartitions {
	c := &TrimPartitions{}
	if n := w.Count(18); n > 0 {
		c.Trims = make([]Trim, 0, n)
		for range n {
			c.Trims = append(c.Trims, Trim{
				Partition: id.TopicPartition{Topic: readTopicID(w), Partition: w.Int32()},
				Offset:    w.Varint(),
			})
		}
	}
	return c
}

func readTopicID(w *wire.Reader) (t id.Topic) {
	copy(t[:], w.Take(len(t)))
	return t
}

func readUint64(w *wire.Reader) uint64 {
	b := w.Take(8)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

// readStringMap reads a map; its keys must ascend, so that equal maps have one form. nil if it is empty.
func readStringMap(w *wire.Reader) map[string]string {
	n := w.Count(2)
	if n == 0 {
		return nil
	}
	m := make(map[string]string, n)
	before := ""
	for i := range n {
		k, v := w.String(), w.String()
		if i > 0 && k <= before {
			w.Fail("map keys do not ascend")
			return nil
		}
		m[k], before = v, k
	}
	return m
}

// readEndpoints reads endpoints, nil if there are none.
func readEndpoints(w *wire.Reader) []Endpoint {
	n := w.Count(3)
	if n == 0 {
		return nil
	}
	list := make([]Endpoint, 0, n)
	for range n {
		list = append(list, Endpoint{Listener: w.String(), Host: w.String(), Port: w.Int32()})
	}
	return list
}
