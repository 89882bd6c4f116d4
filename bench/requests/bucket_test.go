package requests

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/mem"
)

// prefix is that of bundles.
const prefix = "vc/bundles/"

// zeros are what a grain that is not kept looks like.
var zeros [grain]byte

// bucket keeps of bundles what is not zero, and everything else as it is.
type bucket struct {
	*mem.Bucket
	mu      sync.RWMutex
	objects map[string]*object
}

func newBucket() *bucket { return &bucket{Bucket: mem.New(), objects: map[string]*object{}} }

// object is its size and the stretches that are not zero.
type object struct {
	size    int64
	crc     uint32
	written []stretch // ascending
}

type stretch struct {
	at    int64
	bytes []byte
}

func (s *stretch) end() int64 { return s.at + int64(len(s.bytes)) }

// How finely what is not zero is looked for: whole grains first, then cells of those that are not.
const (
	grain = 4 << 10
	cell  = 64
)

func (o *object) append(b []byte) {
	for len(b) > 0 {
		n := min(len(b), grain)
		if !bytes.Equal(b[:n], zeros[:n]) {
			o.note(b[:n])
		}
		o.size += int64(n)
		b = b[n:]
	}
}

// note keeps the cells that are not zero.
func (o *object) note(b []byte) {
	for at := o.size; len(b) > 0; {
		n := min(len(b), cell)
		if !bytes.Equal(b[:n], zeros[:n]) {
			if k := len(o.written); k == 0 || o.written[k-1].end() != at {
				o.written = append(o.written, stretch{at: at})
			}
			last := &o.written[len(o.written)-1]
			last.bytes = append(last.bytes, b[:n]...)
		}
		at, b = at+int64(n), b[n:]
	}
}

// join takes what comes behind.
func (o *object) join(next *object) {
	for _, s := range next.written {
		o.written = append(o.written, stretch{at: o.size + s.at, bytes: s.bytes})
	}
	o.size += next.size
}

// after gives the first stretch that ends after a position.
func (o *object) after(at int64) int {
	lo, hi := 0, len(o.written)
	for lo < hi {
		if m := (lo + hi) / 2; o.written[m].end() > at {
			hi = m
		} else {
			lo = m + 1
		}
	}
	return lo
}

func (b *bucket) find(key string) *object {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.objects[key]
}

// create adds an object; false if there is one.
func (b *bucket) create(key string, o *object) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.objects[key] != nil {
		return false
	}
	b.objects[key] = o
	return true
}

// Put implements objstore.Bucket. It trusts the checksum.
func (b *bucket) Put(ctx context.Context, key string, body objstore.Body) error {
	if !strings.HasPrefix(key, prefix) {
		return b.Bucket.Put(ctx, key, body)
	}
	o := &object{crc: body.CRC32C}
	for _, p := range body.Buffers {
		o.append(p)
	}
	if !b.create(key, o) {
		return fmt.Errorf("put %s: %w", key, objstore.ErrAlreadyExists)
	}
	return nil
}

// Get implements objstore.Bucket.
func (b *bucket) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	o := b.find(key)
	if o == nil {
		return b.Bucket.Get(ctx, key, offset, length)
	}
	from, n, ok := objstore.Range(offset, length, o.size)
	if !ok {
		return nil, fmt.Errorf("get %s at %d: %w", key, offset, objstore.ErrRange)
	}
	return &reader{object: o, at: from, end: from + n, next: o.after(from)}, nil
}

// reader reads a range.
type reader struct {
	object  *object
	at, end int64
	next    int // the first stretch that ends after at
}

func (r *reader) Read(p []byte) (int, error) {
	p = p[:min(int64(len(p)), r.end-r.at)]
	if len(p) == 0 {
		return 0, io.EOF
	}
	clear(p)
	to := r.at + int64(len(p))
	for ; r.next < len(r.object.written); r.next++ {
		s := &r.object.written[r.next]
		if s.at >= to {
			break
		}
		from := max(s.at, r.at)
		copy(p[from-r.at:], s.bytes[from-s.at:])
		if s.end() > to {
			break
		}
	}
	r.at = to
	return len(p), nil
}

func (*reader) Close() error { return nil }

// Head implements objstore.Bucket.
func (b *bucket) Head(ctx context.Context, key string) (objstore.Info, error) {
	o := b.find(key)
	if o == nil {
		return b.Bucket.Head(ctx, key)
	}
	return objstore.Info{Key: key, Size: o.size, CRC32C: o.crc, HasCRC: true}, nil
}

// Create implements objstore.Bucket.
func (b *bucket) Create(ctx context.Context, key string) (objstore.Upload, error) {
	if !strings.HasPrefix(key, prefix) {
		return b.Bucket.Create(ctx, key)
	}
	return &upload{bucket: b, key: key, sent: map[int]*object{}}, nil
}

// upload is an object on its way in parts.
type upload struct {
	bucket *bucket
	key    string
	parts  objstore.Parts
	mu     sync.Mutex
	sent   map[int]*object
}

func (u *upload) Part(_ context.Context, number int, offset int64, body objstore.Body) error {
	if err := u.parts.Check(number, offset, body); err != nil {
		return err
	}
	part := &object{}
	for _, p := range body.Buffers {
		part.append(p)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sent[number] = part
	u.parts.Add(number, offset, body)
	return nil
}

func (u *upload) Complete(context.Context) error {
	count, _, crc, err := u.parts.Whole()
	if err != nil {
		return err
	}
	whole := &object{crc: crc}
	for number := 1; number <= count; number++ {
		whole.join(u.sent[number])
	}
	if !u.bucket.create(u.key, whole) {
		return objstore.ErrAlreadyExists
	}
	return nil
}

func (u *upload) Abort(context.Context) error { return nil }
