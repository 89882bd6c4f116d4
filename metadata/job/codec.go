package job

import (
	"encoding/binary"
	"fmt"

	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/internal/wire"
)

// version of both formats.
const version = 1

// minPartition is the least number of bytes that a partition takes in either format.
const minPartition = 5

// AppendPlan appends the plan's bytes.
func AppendPlan(dst []byte, p *Plan) []byte {
	dst = append(dst, version)
	dst = binary.AppendUvarint(dst, uint64(p.ID))
	dst = append(dst, byte(p.Kind), p.Level)
	dst = binary.AppendUvarint(dst, uint64(len(p.Partitions)))
	var names partitionNames
	for i := range p.Partitions {
		q := &p.Partitions[i]
		dst = names.append(dst, q.ID)
		dst = appendExtents(dst, q.Extents)
		dst = binary.AppendUvarint(dst, uint64(len(q.Aborted)))
		for _, a := range q.Aborted {
			dst = binary.AppendUvarint(dst, uint64(a.ProducerID))
			dst = binary.AppendUvarint(dst, uint64(a.First))
			dst = binary.AppendUvarint(dst, uint64(a.Last-a.First))
		}
		dst = wire.AppendBool(dst, q.Clean != nil)
		if q.Clean != nil {
			dst = q.Clean.append(dst)
		}
	}
	return dst
}

func (c *CleanSpec) append(dst []byte) []byte {
	for _, v := range c.fields() {
		dst = binary.AppendVarint(dst, *v)
	}
	return dst
}

func (c *CleanSpec) fields() []*int64 {
	return []*int64{&c.FirstDirty, &c.NowMs, &c.DeleteRetentionMs, &c.MaxBatchBytes}
}

// ParsePlan reads what AppendPlan wrote. What it allocates is bounded by a small multiple of len(b). Errors wrap
// ErrMalformed.
func ParsePlan(b []byte) (*Plan, error) {
	w := wire.NewReader(b)
	if v := w.Byte(); v != version {
		w.Fail("version %d", v)
	}
	p := &Plan{ID: id.Session(w.Uint32()), Kind: Kind(w.Byte()), Level: w.Byte()}
	if p.Kind < Compact || p.Kind > Cut || p.Level < 1 || p.Level > MaxLevel {
		w.Fail("kind %d, level %d", p.Kind, p.Level)
	}
	n := w.Count(minPartition)
	p.Partitions = make([]Partition, 0, n)
	var names partitionNames
	for range n {
		q := Partition{ID: names.read(&w), Extents: readExtents(&w), Aborted: readAborted(&w)}
		if w.Bool() {
			q.Clean = new(CleanSpec)
			for _, v := range q.Clean.fields() {
				*v = w.Varint()
			}
		}
		if w.Err() == nil && len(q.Extents) == 0 {
			w.Fail("partition %s without extents", q.ID)
		}
		if w.Err() != nil {
			break
		}
		p.Partitions = append(p.Partitions, q)
	}
	return p, done(&w)
}

func readAborted(w *wire.Reader) []extent.Aborted {
	n := w.Count(3)
	if n == 0 {
		return nil
	}
	list := make([]extent.Aborted, 0, n)
	for range n {
		a := extent.Aborted{ProducerID: w.Offset(), First: w.Offset()}
		a.Last = a.First + w.Offset()
		if a.Last < a.First {
			w.Fail("aborted transaction [%d, %d]", a.First, a.Last)
		}
		list = append(list, a)
	}
	return list
}

// AppendOutcome appends the outcome's bytes.
func AppendOutcome(dst []byte, o *Outcome) []byte {
	dst = append(dst, version)
	dst = binary.AppendUvarint(dst, uint64(len(o.Bundles)))
	for _, b := range o.Bundles {
		dst = binary.AppendUvarint(dst, uint64(b.N))
		dst = binary.AppendUvarint(dst, uint64(b.Bytes))
	}
	dst = binary.AppendUvarint(dst, uint64(len(o.Partitions)))
	var names partitionNames
	for i := range o.Partitions {
		r := &o.Partitions[i]
		dst = names.append(dst, r.ID)
		dst = binary.AppendUvarint(dst, uint64(r.From))
		dst = binary.AppendUvarint(dst, uint64(r.To-r.From))
		dst = appendExtents(dst, r.Extents)
		dst = binary.AppendUvarint(dst, uint64(len(r.DroppedAborted)))
		before := int64(0)
		for _, offset := range r.DroppedAborted {
			dst = binary.AppendUvarint(dst, uint64(offset-before))
			before = offset
		}
		dst = binary.AppendVarint(dst, r.CleanedTo)
	}
	return dst
}

// ParseOutcome reads what AppendOutcome wrote and checks it by itself: extents cover what they replace, in bundles that
// are named. What it allocates is bounded by a small multiple of len(b). Errors wrap ErrMalformed.
func ParseOutcome(b []byte) (*Outcome, error) {
	w := wire.NewReader(b)
	if v := w.Byte(); v != version {
		w.Fail("version %d", v)
	}
	o := &Outcome{Bundles: readBundles(&w)}
	n := w.Count(minPartition)
	o.Partitions = make([]Replacement, 0, n)
	var names partitionNames
	for range n {
		r := Replacement{ID: names.read(&w), From: w.Offset()}
		r.To = r.From + w.Offset()
		r.Extents = readExtents(&w)
		r.DroppedAborted = readOffsets(&w)
		r.CleanedTo = w.Varint()
		if w.Err() == nil && !r.covers(o.Bundles) {
			w.Fail("partition %s: extents do not cover [%d, %d] in bundles of the job", r.ID, r.From, r.To)
		}
		if w.Err() == nil && !r.within() {
			w.Fail("partition %s: cleaned to %d, or markers dropped, outside [%d, %d]", r.ID, r.CleanedTo, r.From, r.To)
		}
		if w.Err() != nil {
			break
		}
		o.Partitions = append(o.Partitions, r)
	}
	return o, done(&w)
}

func readBundles(w *wire.Reader) []Bundle {
	n := w.Count(2)
	list := make([]Bundle, 0, n)
	for range n {
		b := Bundle{N: w.Uint32(), Bytes: w.Uint32()}
		if b.N == 0 || len(list) > 0 && b.N <= list[len(list)-1].N {
			w.Fail("bundle %d does not ascend", b.N)
		}
		list = append(list, b)
	}
	return list
}

func readOffsets(w *wire.Reader) []int64 {
	n := w.Count(1)
	if n == 0 {
		return nil
	}
	list, before := make([]int64, 0, n), int64(0)
	for range n {
		offset := before + w.Offset()
		if offset < before {
			w.Fail("offset out of range")
		}
		list, before = append(list, offset), offset
	}
	return list
}

// covers tells whether the extents are what takes the place of [From, To].
func (r *Replacement) covers(bundles []Bundle) bool {
	next := r.From
	for i := range r.Extents {
		x := &r.Extents[i]
		name := x.Bundle.Submission()
		if x.Kind != extent.Absolute || x.Base != next || x.Length == 0 || !holds(bundles, name.N, x) {
			return false
		}
		if name.Session != r.Extents[0].Bundle.Submission().Session {
			return false
		}
		next = x.Last + 1
	}
	return r.To >= r.From && next == r.To+1
}

// within tells whether what the replacement says of the partition besides is of the offsets that it replaces: a snapshot of a
// partition that was cleaned beyond its end could not be read, and an aborted transaction forgotten elsewhere would show.
func (r *Replacement) within() bool {
	for _, marker := range r.DroppedAborted {
		if marker < r.From || marker > r.To {
			return false
		}
	}
	return r.CleanedTo >= 0 && r.CleanedTo <= r.To+1
}

func holds(bundles []Bundle, n uint32, x *extent.Extent) bool {
	for _, b := range bundles {
		if b.N == n {
			return uint64(x.Position)+uint64(x.Length) <= uint64(b.Bytes)
		}
	}
	return false
}

func appendExtents(dst []byte, exts []extent.Extent) []byte {
	return wire.AppendBytes(dst, extent.AppendList(nil, exts))
}

func readExtents(w *wire.Reader) []extent.Extent {
	b := w.Bytes()
	if w.Err() != nil {
		return nil
	}
	exts, err := extent.ParseList(b)
	if err != nil {
		w.Fail("%v", err)
	}
	return exts
}

// partitionNames writes and reads names of partitions, which ascend.
type partitionNames struct {
	last  id.TopicPartition
	begun bool
}

func (n *partitionNames) append(dst []byte, p id.TopicPartition) []byte {
	if n.begun && p.Topic == n.last.Topic {
		dst = append(dst, 0)
	} else {
		dst = append(dst, 1)
		dst = append(dst, p.Topic[:]...)
	}
	n.last, n.begun = p, true
	return binary.AppendUvarint(dst, uint64(p.Partition))
}

func (n *partitionNames) read(w *wire.Reader) id.TopicPartition {
	p := n.last
	if w.Bool() {
		copy(p.Topic[:], w.Take(len(p.Topic)))
	} else if !n.begun {
		w.Fail("no topic")
	}
	number := w.Uint32()
	p.Partition = int32(number)
	if p.Partition < 0 || n.begun && p.Compare(n.last) < 0 {
		w.Fail("partition %d out of order", number)
	}
	n.last, n.begun = p, true
	return p
}

func done(w *wire.Reader) error {
	if err := w.Done(); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}
