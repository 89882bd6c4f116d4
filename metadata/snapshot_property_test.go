package metadata

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

// statesVariable names how many random states TestSnapshot_OfRandomStates makes (make snapshot-states).
const statesVariable = "FRESHET_SNAPSHOT_STATES"

// longest are values of strings and bytes at their limits: Kafka's STRING has 32767 bytes.
var longest = strings.Repeat("\xff", math.MaxInt16)

// extremes sets fields of commands to the limits of their types.
type extremes struct{ rng *rand.Rand }

// command changes some fields of a command, in any depth.
func (x extremes) command(c Command) { x.value(reflect.ValueOf(c).Elem(), 12) }

// value changes each leaf of a value once in so many times.
func (x extremes) value(v reflect.Value, oneIn int) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			x.value(v.Field(i), oneIn)
		}
		return
	case reflect.Pointer:
		if !v.IsNil() {
			x.value(v.Elem(), oneIn)
		}
		return
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			for i := range v.Len() {
				x.value(v.Index(i), oneIn)
			}
			return
		}
	default:
	}
	if x.rng.IntN(oneIn) == 0 {
		x.leaf(v)
	}
}

func (x extremes) leaf(v reflect.Value) {
	switch v.Kind() {
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		bits := v.Type().Bits()
		least, most := int64(-1)<<(bits-1), int64(math.MaxInt64)>>(64-bits)
		v.SetInt([]int64{least, least + 1, -2, -1, 0, 1, most - 1, most}[x.rng.IntN(8)])
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		most := uint64(math.MaxUint64) >> (64 - v.Type().Bits())
		v.SetUint([]uint64{0, 1, most - 1, most}[x.rng.IntN(4)])
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.String:
		v.SetString(x.text())
	case reflect.Slice:
		v.SetBytes([]byte(x.text()))
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{x.text(): x.text(), "3": ""}))
	case reflect.Array:
		v.SetZero() // an id
	default:
		panic(v.Kind().String())
	}
}

// text returns a string, now and then as long as Kafka's can be.
func (x extremes) text() string {
	if x.rng.IntN(40) == 0 {
		return longest
	}
	return []string{"", "\x00", "\xff", "g1", longest[:300]}[x.rng.IntN(5)]
}

// commit returns a bundle whose batches have fields at their limits; nil if no agent can encode it.
func (x extremes) commit(s *machine) Command {
	session := id.Session(1 + x.rng.IntN(4))
	info, _ := s.Session(session)
	h := commit.Header{Submission: id.Submission{Session: session, N: info.NextN}, Bytes: math.MaxUint32}
	var sections []section
	for range 1 + x.rng.IntN(3) {
		sec := section{topic: fmt.Sprint(x.rng.IntN(4)), partition: x.rng.Int32N(8)}
		for range 1 + x.rng.IntN(3) {
			b := commit.Batch{Records: 1, Bytes: commit.MinBatchBytes, MaxTimestamp: -1, ProducerID: x.rng.Int64N(4) - 1}
			if b.ProducerID >= 0 && x.rng.IntN(2) == 0 {
				b.Transactional, b.TransactionVersion = true, ProtocolTwo
			}
			x.value(reflect.ValueOf(&b).Elem(), 6)
			sec.batches = append(sec.batches, b)
		}
		sections = append(sections, sec)
	}
	c := &CommitBundle{Encoded: encodable(h, sections)}
	if c.Encoded == nil {
		return &Tick{}
	}
	return c
}

// encodable returns the encoded commit, nil where the builder or the reader refuses it.
func encodable(h commit.Header, sections []section) (encoded []byte) {
	defer func() {
		if recover() != nil {
			encoded = nil
		}
	}()
	encoded = encodeCommit(h, sections...)
	if _, err := commit.Parse(encoded); err != nil {
		return nil
	}
	return encoded
}

// atLimits returns a state near what years of use bring: counters that are nearly used up.
func atLimits(rng *rand.Rand) *machine {
	s := newMachine()
	if rng.IntN(3) == 0 {
		s.nextProducerID = math.MaxInt64 - rng.Int64N(4)
	}
	if rng.IntN(3) == 0 {
		s.index, s.membership = 1<<43, math.MaxInt32-rng.Uint64N(4)
	}
	for n := range 4 {
		t := &CreateTopic{ID: topicID(fmt.Sprint(n)), Name: fmt.Sprint(n), Partitions: 8}
		s.Apply(s.index+1, &Batch{Commands: []Command{t, &OpenSession{Instance: fmt.Sprint(n), Endpoints: make([]Endpoint, 2)}}}, nil, nil)
		if rng.IntN(3) == 0 {
			e, _ := s.topics.Get(topicKey(t.ID))
			high := math.MaxInt64 - 1 - rng.Int64N(100)
			e.partitions.Set(0, &partition{gen: s.gen, logStart: high, high: high, producers: newProducers()})
		}
	}
	return s
}

// Whatever Apply accepts, a snapshot keeps: states of random commands with fields at their limits are encoded and decoded, and
// have the same hash and the same future.
func TestSnapshot_OfRandomStates(t *testing.T) {
	states := 200
	if n, err := strconv.Atoi(os.Getenv(statesVariable)); err == nil {
		states = n
	}
	accepted := map[commandKind]int{}
	for seed := range uint64(states) {
		rng := rand.New(rand.NewPCG(seed, 6))
		x := extremes{rng}
		s := atLimits(rng)
		for range 10 + rng.IntN(30) {
			requireNoPanic(t, seed, func() { x.step(s, accepted) })
		}
		if rng.IntN(5) == 0 {
			x.lists(s)
		}
		requireKept(t, seed, rng, s)
	}
	t.Logf("%d states; commands without an error by kind: %v", states, accepted)
	for _, kind := range []commandKind{kindCommitBundle, kindInitTransaction, kindAddOffsets, kindCommitOffsets, kindUpdateGroup, kindStartJob, kindSetConfigs} {
		require.Positive(t, accepted[kind], "commands of kind %d", kind)
	}
}

// step applies one entry as a log holds it.
func (x extremes) step(s *machine, accepted map[commandKind]int) {
	commands := randomCommands(x.rng, s)
	for i, c := range commands {
		if _, ok := c.(*CommitBundle); ok {
			commands[i] = x.commit(s)
			continue
		}
		x.command(c)
	}
	b := &Batch{Now: s.now + x.rng.Int64N(1000), Commands: commands}
	if x.rng.IntN(100) == 0 {
		x.leaf(reflect.ValueOf(&b.Now).Elem())
	}
	b, err := ParseBatch(AppendBatch(nil, b))
	if err != nil {
		return // no owner writes that
	}
	for i, r := range s.Apply(s.index+1, b, nil, nil) {
		if r.Err == nil {
			accepted[b.Commands[i].kind()]++
		}
	}
}

// lists makes lists that need more than one record of a snapshot: groups of a transaction, pending offsets of a partition, and
// offset metadata.
func (x extremes) lists(s *machine) {
	apply := func(c Command) Result {
		return s.Apply(s.index+1, &Batch{Now: s.now, Commands: []Command{c}}, nil, nil)[0]
	}
	tp := id.TopicPartition{Topic: topicID("0"), Partition: x.rng.Int32N(3)}
	for n := range 2 + x.rng.IntN(12) {
		name := fmt.Sprint("l", n)
		p, ok := apply(&InitTransaction{TransactionalID: name, TimeoutMs: 1, ProducerID: -1, ProducerEpoch: -1}).Value.(InitTransactionResult)
		if !ok {
			return // producer ids are used up
		}
		ref := TransactionRef{TransactionalID: name, ProducerID: p.ProducerID, Epoch: p.Epoch, Version: ProtocolTwo}
		note := longest[:len(longest)-x.rng.IntN(3)]
		tp.Partition = (tp.Partition + x.rng.Int32N(2)) % 8
		offsets := []OffsetCommit{{Partition: tp, Offset: int64(n), Metadata: note, ExpiresMs: -1}}
		apply(&CommitOffsets{Group: "g0", Transaction: &ref, Offsets: offsets})
		apply(&CommitOffsets{Group: "g1", Offsets: offsets})
		for i := range x.rng.IntN(4) {
			apply(&AddOffsets{TransactionRef: ref, Group: fmt.Sprint(i) + note[1:]})
		}
	}
}

func requireNoPanic(t *testing.T, seed uint64, f func()) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			require.Failf(t, "Apply panicked", "seed %d: %v", seed, p)
		}
	}()
	f()
}

// requireKept encodes and decodes a state and lets both go on.
func requireKept(t *testing.T, seed uint64, rng *rand.Rand, s *machine) {
	t.Helper()
	var buf bytes.Buffer
	require.NoError(t, s.snapshot().Encode(&buf), "seed %d", seed)
	hash, err := s.snapshot().Encodable()
	require.NoError(t, err)
	require.Equal(t, s.Hash(), hash)
	restored, err := decode(&buf)
	require.NoError(t, err, "seed %d", seed)
	require.Equal(t, s.Hash(), restored.Hash(), "seed %d", seed)
	requireDerived(t, restored)
	requireGroupsTidy(t, restored)
	for range 3 {
		b := &Batch{Now: s.now, Commands: append(randomCommands(rng, s), &Tick{})}
		require.Equal(t, s.Apply(s.index+1, b, nil, nil), restored.Apply(restored.index+1, b, nil, nil), "seed %d", seed)
	}
	require.Equal(t, s.Hash(), restored.Hash(), "seed %d: the future differs", seed)
}
