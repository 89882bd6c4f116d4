package peer

import (
	"context"
	"errors"
	"io"

	"github.com/freshet-io/freshet/agent/cache"
	"github.com/freshet-io/freshet/metadata/id"
)

// ReadAt fills p with a bundle's bytes from a position on, from the memory of another agent: of the one that wrote the
// bundle, or the one that read it for the zone. Nobody reads the object store for it, and nothing is kept. Bytes may be
// patched (package cache). It is false if no agent has all of them, or none that can be asked.
func (z *Zone) ReadAt(ctx context.Context, b id.Bundle, p []byte, position uint32) bool {
	if len(p) == 0 || uint64(position)+uint64(len(p)) > cache.WholeUnit {
		return false
	}
	a := cache.Ask{Bundle: b, Class: cache.CatchUp, Units: []cache.Unit{{}}}
	d := z.current()
	var asked id.Session
	if writer, ok := z.writer(d, &a); ok {
		asked = writer.session
		if z.fill(ctx, writer, &a, p, position) {
			return true
		}
	}
	owner, ok := d.peers[z.toAsk(d, b, a.Units[0])]
	return ok && owner.session != asked && z.fill(ctx, owner, &a, p, position)
}

// fill asks one agent; it reports whether p is full.
func (z *Zone) fill(ctx context.Context, p peer, a *cache.Ask, dst []byte, position uint32) bool {
	full := false
	order := ask{Ask: a, units: []int{0}, from: position, to: position + uint32(len(dst))}
	_, _ = z.ask(ctx, p, order, func(_ int, in cache.Incoming) error {
		err := gather(dst, position, in)
		full = err == nil
		return err
	})
	return full
}

// gather reads stretches that must make up dst.
func gather(dst []byte, position uint32, in cache.Incoming) error {
	if in.Size() != int64(len(dst)) {
		return cache.ErrUnwanted // some are left out
	}
	for len(dst) > 0 {
		at, length, err := in.Next()
		if err != nil {
			return err
		}
		if at != position || int64(length) > int64(len(dst)) {
			return cache.ErrStretches
		}
		if _, err := io.ReadFull(in, dst[:length]); err != nil {
			return err
		}
		dst, position = dst[length:], position+length
	}
	_, _, err := in.Next()
	if errors.Is(err, io.EOF) {
		return nil
	}
	return cache.ErrStretches
}
