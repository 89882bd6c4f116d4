package fault

import (
	"bytes"
	"context"
	"io"
	"time"
)

// spoil applies the effects on a get's body.
func (p plan) spoil(ctx context.Context, r io.ReadCloser) (io.ReadCloser, error) {
	if p.is(effectCorrupt) || p.is(effectTruncate) {
		data, err := io.ReadAll(r)
		r.Close()
		if err != nil {
			return nil, err
		}
		r = p.spoilBytes(data)
	}
	if p.slow > 0 {
		r = &slowReader{ReadCloser: r, ctx: ctx, rate: p.slow}
	}
	return r, nil
}

func (p plan) spoilBytes(data []byte) io.ReadCloser {
	if p.is(effectTruncate) {
		half := bytes.NewReader(data[:len(data)/2])
		return io.NopCloser(io.MultiReader(half, failingReader{}))
	}
	if len(data) > 0 {
		p.rule.mu.Lock()
		bit := p.rule.rng.IntN(len(data) * 8)
		p.rule.mu.Unlock()
		data[bit/8] ^= 1 << (bit % 8)
	}
	return io.NopCloser(bytes.NewReader(data))
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// slowReader waits after each read for as long as its bytes take at the rate.
type slowReader struct {
	io.ReadCloser
	ctx  context.Context
	rate int64 // bytes per second
}

func (r *slowReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p[:min(int64(len(p)), max(1, r.rate/10))])
	if n > 0 {
		pause := time.Duration(float64(n) / float64(r.rate) * float64(time.Second))
		if waitErr := wait(r.ctx, time.After(pause)); waitErr != nil {
			return 0, waitErr
		}
	}
	return n, err
}
