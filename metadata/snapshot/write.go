package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/durable"
)

// Write streams the state, which is a snapshot of its own (metadata.State.Snapshot), to the bucket under the prefix,
// which ends with a slash, then reads everything back. It gives the pointer, and the state's hash, once the snapshot
// is known to be whole. Objects of a failed attempt stay until DeleteOlder. Errors: ErrUnavailable, ErrCorrupt (read
// back other than written).
func Write(
	ctx context.Context, bucket objstore.Bucket, prefix string, s *metadata.State,
) (ref metalog.SnapshotRef, hash uint64, err error) {
	hash = s.Hash()
	name := newName(prefix, s.Index())
	m := &manifest{Format: manifestFormat, Index: s.Index(), Hash: formatHash(hash)}
	if err := writeParts(ctx, bucket, name, s, m); err != nil {
		return ref, 0, fmt.Errorf("write snapshot %s: %w", name, err)
	}
	p, err := json.Marshal(m)
	if err != nil {
		return ref, 0, fmt.Errorf("encode manifest of snapshot %s: %w", name, err)
	}
	body := objstore.NewBody(p)
	if err := put(ctx, bucket, manifestKey(name), body); err != nil {
		return ref, 0, fmt.Errorf("write manifest of snapshot %s: %w", name, err)
	}
	ref = metalog.SnapshotRef{Index: m.Index, Name: name, Bytes: m.Bytes, CRC: body.CRC32C}
	return ref, hash, verify(ctx, bucket, ref)
}

func formatHash(h uint64) string { return fmt.Sprintf("%016x", h) }

// writeParts runs the encoder against a pipe, so that no more than one part is in memory.
func writeParts(ctx context.Context, bucket objstore.Bucket, name string, s *metadata.State, m *manifest) error {
	pr, pw := io.Pipe()
	encoded := make(chan struct{})
	go func() {
		defer close(encoded)
		pw.CloseWithError(s.Encode(pw)) // nil ends the stream
	}()
	defer func() {
		pr.CloseWithError(io.ErrClosedPipe) // stops the encoder if it still runs
		<-encoded
	}()
	buf := make([]byte, PartBytes)
	for {
		n, err := io.ReadFull(pr, buf)
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return fmt.Errorf("encode state: %w", err)
		}
		if n > 0 {
			body := objstore.NewBody(buf[:n])
			if err := put(ctx, bucket, partKey(name, len(m.Parts)), body); err != nil {
				return err
			}
			m.Parts = append(m.Parts, part{Bytes: body.Size, CRC: body.CRC32C})
			m.Bytes += body.Size
		}
		if last {
			return nil
		}
	}
}

func put(ctx context.Context, bucket objstore.Bucket, key string, body objstore.Body) error {
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	if err := durable.PutResolved(ctx, bucket, key, body); err != nil {
		return fmt.Errorf("%w: put %s: %w", ErrUnavailable, key, err)
	}
	return nil
}

// verify reads every byte back.
func verify(ctx context.Context, bucket objstore.Bucket, ref metalog.SnapshotRef) error {
	m, err := readManifest(ctx, bucket, ref)
	if err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	buf := make([]byte, 0, PartBytes)
	for i, p := range m.Parts {
		if _, err := readPart(ctx, bucket, partKey(ref.Name, i), p, buf); err != nil {
			return fmt.Errorf("read back: %w", err)
		}
	}
	return nil
}
