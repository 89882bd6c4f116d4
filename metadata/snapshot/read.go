package snapshot

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"time"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/objstore"
)

// Read returns the state of a snapshot and its hash. Every checksum and the hash are verified. Errors: ErrCorrupt,
// ErrUnreadable, ErrUnavailable, metadata.ErrUnsupported.
func Read(ctx context.Context, bucket objstore.Bucket, ref metalog.SnapshotRef) (*metadata.State, uint64, error) {
	m, err := readManifest(ctx, bucket, ref)
	if err != nil {
		return nil, 0, err
	}
	s, err := decode(ctx, bucket, ref, m)
	if err != nil {
		return nil, 0, err
	}
	if s.Index() != ref.Index {
		return nil, 0, fmt.Errorf("%w: %w: %s holds the state at %d", ErrCorrupt, ErrUnreadable, ref.Name, s.Index())
	}
	hash := s.Hash()
	if formatHash(hash) != m.Hash {
		return nil, 0, fmt.Errorf("%w: %w: %s has hash %016x, its manifest has %s", ErrCorrupt, ErrUnreadable, ref.Name, hash, m.Hash)
	}
	return s, hash, nil
}

// decode feeds the parts, each verified before the decoder sees it, through a pipe.
func decode(ctx context.Context, bucket objstore.Bucket, ref metalog.SnapshotRef, m *manifest) (*metadata.State, error) {
	pr, pw := io.Pipe()
	fed := make(chan error, 1)
	go func() {
		err := feed(ctx, bucket, ref, m, pw)
		pw.CloseWithError(err)
		fed <- err
	}()
	s, err := metadata.Decode(pr)
	pr.CloseWithError(io.ErrClosedPipe)
	feedErr := <-fed
	switch {
	case feedErr != nil && !errors.Is(feedErr, io.ErrClosedPipe):
		return nil, feedErr
	case err != nil && errors.Is(err, metadata.ErrUnsupported) && !errors.Is(err, metadata.ErrMalformedSnapshot):
		return nil, fmt.Errorf("decode %s: %w", ref.Name, err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w: decode %s: %w", ErrCorrupt, ErrUnreadable, ref.Name, err)
	}
	return s, nil
}

func feed(ctx context.Context, bucket objstore.Bucket, ref metalog.SnapshotRef, m *manifest, w io.Writer) error {
	buf := make([]byte, 0, PartBytes)
	for i, p := range m.Parts {
		data, err := readPart(ctx, bucket, partKey(ref.Name, i), p, buf)
		if err != nil {
			return err
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
	}
	return nil
}

func readManifest(ctx context.Context, bucket objstore.Bucket, ref metalog.SnapshotRef) (*manifest, error) {
	var m *manifest
	err := retry(ctx, func(ctx context.Context) error {
		p, err := get(ctx, bucket, manifestKey(ref.Name), nil, maxManifestBytes)
		if err != nil {
			return err
		}
		if crc := crc32.Checksum(p, objstore.Castagnoli); crc != ref.CRC {
			return fmt.Errorf("%w: manifest of %s has checksum %08x, expected %08x", ErrCorrupt, ref.Name, crc, ref.CRC)
		}
		m, err = parseManifest(p, ref)
		return err
	})
	return m, err
}

// readPart reads one part into buf's memory.
func readPart(ctx context.Context, bucket objstore.Bucket, key string, p part, buf []byte) (data []byte, err error) {
	err = retry(ctx, func(ctx context.Context) error {
		if data, err = get(ctx, bucket, key, buf, p.Bytes); err != nil {
			return err
		}
		if crc := crc32.Checksum(data, objstore.Castagnoli); int64(len(data)) != p.Bytes || crc != p.CRC {
			return fmt.Errorf("%w: %s has %d bytes with checksum %08x, expected %d with %08x",
				ErrCorrupt, key, len(data), crc, p.Bytes, p.CRC)
		}
		return nil
	})
	return data, err
}

// get reads a whole object of at most limit bytes into buf's memory.
func get(ctx context.Context, bucket objstore.Bucket, key string, buf []byte, limit int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, getTimeout)
	defer cancel()
	r, err := bucket.Get(ctx, key, 0, -1)
	if errors.Is(err, objstore.ErrNotFound) {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: get %s: %w", ErrUnavailable, key, err)
	}
	defer r.Close()
	buf = buf[:0]
	lr := &io.LimitedReader{R: r, N: limit + 1}
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := lr.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if int64(len(buf)) > limit {
			return nil, fmt.Errorf("%w: %s is larger than %d bytes", ErrCorrupt, key, limit)
		}
		if errors.Is(err, io.EOF) {
			return buf, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: get %s: %w", ErrUnavailable, key, err)
		}
	}
}

// retry repeats op a few times. Corruption is looked at once more only: the bytes may have been damaged on the way.
func retry(ctx context.Context, op func(context.Context) error) error {
	corrupt := 0
	for n, wait := 1, 100*time.Millisecond; ; n, wait = n+1, 2*wait {
		err := op(ctx)
		if errors.Is(err, ErrCorrupt) {
			corrupt++
		}
		if err == nil || corrupt > 1 || n == getAttempts || ctx.Err() != nil {
			return err
		}
		timer := time.NewTimer(wait/2 + rand.N(wait))
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
	}
}
