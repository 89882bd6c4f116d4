package requests

import (
	"context"
	"io"
	"sync"

	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
	"github.com/freshet-io/freshet/objstore/meter"
)

// kind is what an object is.
type kind uint8

const (
	fresh  kind = iota // a bundle as an agent wrote it
	first              // of level 1
	second             // of level 2
	kinds
)

// counts are those of all requests of agents, by the kind of object, and of the control plane.
type counts struct {
	agents  [kinds]meter.Counts
	control meter.Counts
}

func (c counts) sub(earlier counts) counts {
	for k := range c.agents {
		c.agents[k] = difference(c.agents[k], earlier.agents[k])
	}
	c.control = difference(c.control, earlier.control)
	return c
}

func difference(c, earlier meter.Counts) meter.Counts {
	for op := range c {
		c[op].Requests -= earlier[op].Requests
		c[op].Errors -= earlier[op].Errors
		c[op].Bytes -= earlier[op].Bytes
	}
	return c
}

// sorted counts requests by the kind of object that they are for.
type sorted struct {
	objstore.Bucket
	meters [kinds]*meter.Bucket

	mu     sync.Mutex
	levels map[id.Session]kind // of what jobs write
}

func newSorted(inner objstore.Bucket) *sorted {
	s := &sorted{Bucket: inner, levels: map[id.Session]kind{}}
	for k := range s.meters {
		s.meters[k] = meter.New(inner, nil)
	}
	return s
}

// job says which kind of objects a job writes.
func (s *sorted) job(n id.Session, level uint8) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.levels[n] = kind(level)
}

func (s *sorted) kind(b id.Bundle) kind {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.levels[b.Submission().Session]
}

func (s *sorted) of(key string) *meter.Bucket {
	b, err := bundle.ParseKey(prefix, key)
	if err != nil {
		panic("agents ask for bundles alone: " + key)
	}
	return s.meters[s.kind(b)]
}

func (s *sorted) counts() (c [kinds]meter.Counts) {
	for k := range c {
		c[k] = s.meters[k].Counts()
	}
	return c
}

func (s *sorted) Put(ctx context.Context, key string, body objstore.Body) error {
	return s.of(key).Put(ctx, key, body)
}

func (s *sorted) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	return s.of(key).Get(ctx, key, offset, length)
}

func (s *sorted) Head(ctx context.Context, key string) (objstore.Info, error) {
	return s.of(key).Head(ctx, key)
}

func (s *sorted) Create(ctx context.Context, key string) (objstore.Upload, error) {
	return s.of(key).Create(ctx, key)
}

// puts are the requests charged as PUTs.
func puts(c meter.Counts) (n int64) {
	for _, op := range []objstore.Op{
		objstore.OpPut, objstore.OpCreateUpload, objstore.OpPutPart, objstore.OpCompleteUpload, objstore.OpList, objstore.OpListUploads,
	} {
		n += c[op].Requests
	}
	return n
}

// gets are the requests charged as GETs.
func gets(c meter.Counts) int64 { return c[objstore.OpGet].Requests + c[objstore.OpHead].Requests }
