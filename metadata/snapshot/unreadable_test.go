package snapshot_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"testing"
	"testing/synctest"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/generation"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/snapshot"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/mem"
)

// mutant is a state whose encoder is broken.
type mutant struct {
	*metadata.State
	encode func(io.Writer) error
}

func (m mutant) Encode(w io.Writer) error { return m.encode(w) }

// large returns a state one of whose records takes more than a section may have. No owner lets such a command in.
func large(index uint64) *metadata.State {
	s := metadata.New()
	s.Apply(index, &metadata.Batch{Now: 1, Commands: []metadata.Command{
		&metadata.UpdateGroup{Group: "g", Kind: metadata.GroupClassic, Head: make([]byte, metadata.SectionBytes)},
	}}, nil, nil)
	return s.Snapshot()
}

// An encoder that writes what nobody can decode, or another state than it says, is found out before anybody points to the
// snapshot. Its objects are deleted.
func TestWrite_RefusesWhatCannotBeReadBack(t *testing.T) {
	s := state(7, 100)
	for name, encode := range map[string]func(io.Writer) error{
		"section above the bound": func(w io.Writer) error { return encodeUnbounded(w, 65<<20) },
		"another state":           func(w io.Writer) error { return state(7, 200).Encode(w) },
		"another index":           func(w io.Writer) error { return state(8, 100).Encode(w) },
		"no state":                func(w io.Writer) error { _, err := w.Write([]byte("no snapshot")); return err },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := mem.New()
				_, _, err := snapshot.Write(t.Context(), b, prefix, mutant{s, encode})
				require.ErrorIs(t, err, snapshot.ErrUnreadable)
				require.ErrorIs(t, err, snapshot.ErrCorrupt)
				require.Empty(t, keys(t, b))
			})
		})
	}
}

// encodeUnbounded writes one section of that size, with all its checksums right, as an encoder without a bound would.
func encodeUnbounded(w io.Writer, size int) error {
	payload := make([]byte, size)
	p := append([]byte("frshsnap"), generation.Number)
	p = binary.LittleEndian.AppendUint32(p, uint32(size))
	p = binary.LittleEndian.AppendUint32(p, crc32.Checksum(payload, objstore.Castagnoli))
	p = append(append(p, payload...), 0, 0, 0, 0)
	_, err := w.Write(binary.LittleEndian.AppendUint64(p, xxhash.Sum64(p)))
	return err
}

// A state that no snapshot can be written of costs no request.
func TestWrite_StateTooLarge(t *testing.T) {
	b := mem.New()
	_, _, err := snapshot.Write(t.Context(), b, prefix, large(7))
	require.ErrorIs(t, err, metadata.ErrStateTooLarge)
	require.ErrorContains(t, err, "group record")
	require.Empty(t, keys(t, b))
}

// An encoder that fails in the midst of it leaves no snapshot.
func TestWrite_EncoderFails(t *testing.T) {
	broken := errors.New("broken")
	b := mem.New()
	_, _, err := snapshot.Write(t.Context(), b, prefix, mutant{state(7, 100), func(io.Writer) error { return broken }})
	require.ErrorIs(t, err, broken)
	require.Empty(t, keys(t, b))
}

// A manifest of a later format is a newer program's, and no damage.
func TestRead_ManifestOfANewerProgram(t *testing.T) {
	b := mem.New()
	ref := write(t, b, state(7, 100))
	p, err := json.Marshal(map[string]any{"format": 2, "parts": []map[string]any{{"bytes": 1 << 40}}})
	require.NoError(t, err)
	key := ref.Name + "/manifest"
	require.NoError(t, b.Delete(t.Context(), []string{key}))
	body := objstore.NewBody(bytes.Clone(p))
	require.NoError(t, b.Put(t.Context(), key, body))
	_, _, err = snapshot.Read(t.Context(), b, metalog.SnapshotRef{Index: 7, Name: ref.Name, CRC: body.CRC32C})
	require.ErrorIs(t, err, metadata.ErrUnsupported)
	require.NotErrorIs(t, err, snapshot.ErrCorrupt)
}
