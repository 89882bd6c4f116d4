package oracle

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/cespare/xxhash/v2"
)

// ID names a record: Producer's Seq-th into Partition, counted from 0 without holes. Txn is the producer's transaction
// that it belongs to, counted from 0 over all partitions; -1 outside of transactions.
type ID struct {
	Producer  int32
	Partition int32
	Seq       int64
	Txn       int64
}

func (id ID) String() string {
	if id.Txn < 0 {
		return fmt.Sprintf("p%d/%d/%d", id.Producer, id.Partition, id.Seq)
	}
	return fmt.Sprintf("p%d/%d/%d of transaction %d", id.Producer, id.Partition, id.Seq, id.Txn)
}

// headLength is the length of what stands before a value's filling, and the shortest value:
//
//	 0   8  run
//	 8   4  producer
//	12   4  partition
//	16   8  sequence number
//	24   8  transaction, or -1
//	32   8  xxhash of the 32 bytes before
//
// All big-endian. The filling follows from the head, so what a record must be is known without keeping it.
const headLength = 40

// Key is the key of a record: keys of one producer and partition are used in turn.
func Key(id ID, keys int64) []byte {
	return fmt.Appendf(nil, "p%d-%d-%d", id.Producer, id.Partition, id.Seq%keys)
}

// Value is the value of a record, of size bytes, at least headLength.
func Value(run uint64, id ID, size int) []byte {
	v := make([]byte, max(size, headLength)+8)
	binary.BigEndian.PutUint64(v, run)
	binary.BigEndian.PutUint32(v[8:], uint32(id.Producer))
	binary.BigEndian.PutUint32(v[12:], uint32(id.Partition))
	binary.BigEndian.PutUint64(v[16:], uint64(id.Seq))
	binary.BigEndian.PutUint64(v[24:], uint64(id.Txn))
	sum := xxhash.Sum64(v[:32])
	binary.BigEndian.PutUint64(v[32:], sum)
	filling := rand.NewPCG(run, sum)
	for i := headLength; i+8 <= len(v); i += 8 {
		binary.LittleEndian.PutUint64(v[i:], filling.Uint64())
	}
	return v[:max(size, headLength)]
}

// What is wrong with a record's bytes.
var (
	errForeign = errors.New("no record of this run")
	errContent = errors.New("other content than was sent")
)

// parse gives the record that key and value stand for. errContent comes with the ID that the head names.
func parse(run uint64, key, value []byte, keys int64) (ID, error) {
	if len(value) < headLength || binary.BigEndian.Uint64(value) != run ||
		binary.BigEndian.Uint64(value[32:]) != xxhash.Sum64(value[:32]) {
		return ID{}, errForeign
	}
	id := ID{
		Producer:  int32(binary.BigEndian.Uint32(value[8:])),
		Partition: int32(binary.BigEndian.Uint32(value[12:])),
		Seq:       int64(binary.BigEndian.Uint64(value[16:])),
		Txn:       int64(binary.BigEndian.Uint64(value[24:])),
	}
	if !bytes.Equal(value, Value(run, id, len(value))) || !bytes.Equal(key, Key(id, keys)) {
		return id, errContent
	}
	return id, nil
}
