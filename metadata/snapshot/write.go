package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/durable"
)

// Encoder is a frozen state: *metadata.State.
type Encoder interface {
	Index() uint64
	// Encodable returns the hash that the decoded state must have.
	Encodable() (hash uint64, err error)
	Encode(w io.Writer) error
}

// Write streams the state, which is a snapshot of its own (metadata.State.Snapshot), to the bucket under the prefix,
// which ends with a slash. Then it reads the objects back as Read does. It returns the pointer and the state's hash once
// that pass has decoded a state with the same hash. The decoded state takes as much memory as the written one until then.
// If the state cannot be read back, Write deletes the attempt's objects; those of an attempt that failed otherwise stay
// until DeleteOlder. Errors: ErrUnavailable, ErrCorrupt (read back other than written), ErrUnreadable,
// metadata.ErrStateTooLarge. The last two stay until the state or the program changes.
func Write(
	ctx context.Context, bucket objstore.Bucket, prefix string, s Encoder,
) (ref metalog.SnapshotRef, hash uint64, err error) {
	hash, err = s.Encodable()
	if err != nil {
		return ref, 0, fmt.Errorf("write snapshot of the state at %d: %w", s.Index(), err)
	}
	m := &manifest{Format: manifestFormat, Index: s.Index(), Hash: formatHash(hash)}
	ref, err = write(ctx, bucket, newName(prefix, s.Index()), s, m)
	if errors.Is(err, ErrUnreadable) {
		discard(ctx, bucket, ref.Name, m)
	}
	if err != nil {
		return metalog.SnapshotRef{}, 0, err
	}
	return ref, hash, nil
}

// write is Write of a state that can be encoded. The pointer has the name in any case.
func write(
	ctx context.Context, bucket objstore.Bucket, name string, s Encoder, m *manifest,
) (ref metalog.SnapshotRef, err error) {
	ref.Name = name
	if err := writeParts(ctx, bucket, name, s, m); err != nil {
		return ref, fmt.Errorf("write snapshot %s: %w", name, err)
	}
	p, err := json.Marshal(m)
	if err != nil {
		return ref, fmt.Errorf("encode manifest of snapshot %s: %w", name, err)
	}
	body := objstore.NewBody(p)
	if err := put(ctx, bucket, manifestKey(name), body); err != nil {
		return ref, fmt.Errorf("write manifest of snapshot %s: %w", name, err)
	}
	ref = metalog.SnapshotRef{Index: m.Index, Name: name, Bytes: m.Bytes, CRC: body.CRC32C}
	if _, _, err := Read(ctx, bucket, ref); err != nil {
		return ref, fmt.Errorf("read back snapshot %s: %w", name, err)
	}
	return ref, nil
}

// discard deletes the objects of an attempt, as far as the bucket answers: what is left goes with DeleteOlder.
func discard(ctx context.Context, bucket objstore.Bucket, name string, m *manifest) {
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	keys := []string{manifestKey(name)}
	for i := range m.Parts {
		keys = append(keys, partKey(name, i))
	}
	for batch := range slices.Chunk(keys, deleteKeys) {
		if bucket.Delete(ctx, batch) != nil {
			return
		}
	}
}

func formatHash(h uint64) string { return fmt.Sprintf("%016x", h) }

// writeParts runs the encoder against a pipe, so that no more than one part is in memory.
func writeParts(ctx context.Context, bucket objstore.Bucket, name string, s Encoder, m *manifest) error {
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
		if n > 0 && len(m.Parts) == maxParts {
			return fmt.Errorf("%w: more than %d parts of %d bytes", metadata.ErrStateTooLarge, maxParts, PartBytes)
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
