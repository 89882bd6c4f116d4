package replica_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/replica"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/snapshot"
	"github.com/freshet-io/freshet/objstore"
)

// oneSection returns a snapshot of the state in a single section, as an encoder without a bound writes it.
func oneSection(t *testing.T, s *metadata.State) []byte {
	t.Helper()
	var buf bytes.Buffer
	require.NoError(t, s.Encode(&buf))
	const head = len("frshsnap") + 1
	p := buf.Bytes()
	var payload []byte
	for rest := p[head:]; ; {
		n := binary.LittleEndian.Uint32(rest)
		if n == 0 {
			break
		}
		payload, rest = append(payload, rest[8:8+n]...), rest[8+n:]
	}
	out := binary.LittleEndian.AppendUint32(slices.Clone(p[:head]), uint32(len(payload)))
	out = binary.LittleEndian.AppendUint32(out, crc32.Checksum(payload, objstore.Castagnoli))
	out = append(append(out, payload...), 0, 0, 0, 0)
	return binary.LittleEndian.AppendUint64(out, xxhash.Sum64(out))
}

// putSnapshot puts the objects of a snapshot as earlier programs did, without decoding it.
func (w *world) putSnapshot(s *metadata.State, encoded []byte) metalog.SnapshotRef {
	w.t.Helper()
	type part struct {
		Bytes int64  `json:"bytes"`
		CRC   uint32 `json:"crc"`
	}
	name := fmt.Sprintf("%s%016x-00000000", prefix, s.Index())
	var parts []part
	for chunk := range slices.Chunk(encoded, snapshot.PartBytes) {
		body := objstore.NewBody(chunk)
		require.NoError(w.t, w.bucket.Bucket.Put(w.t.Context(), fmt.Sprintf("%s/part-%05d", name, len(parts)), body))
		parts = append(parts, part{body.Size, body.CRC32C})
	}
	manifest, err := json.Marshal(map[string]any{
		"format": 1, "index": s.Index(), "hash": fmt.Sprintf("%016x", s.Hash()), "bytes": len(encoded), "parts": parts,
	})
	require.NoError(w.t, err)
	body := objstore.NewBody(manifest)
	require.NoError(w.t, w.bucket.Bucket.Put(w.t.Context(), name+"/manifest", body))
	return metalog.SnapshotRef{Index: s.Index(), Name: name, Bytes: int64(len(encoded)), CRC: body.CRC32C}
}

// An earlier program trimmed the log behind a snapshot with a section above the bound. A replica cannot start from that; one
// with a larger bound can, and its own snapshots need none.
func TestReplica_RescuedByALargerSectionBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := metadata.New()
		commands := []metadata.Command{&metadata.Bootstrap{ClusterID: "cluster"}, topic(1)}
		for n := range 7 {
			commands = append(commands, &metadata.SetConfigs{
				Resource: metadata.ConfigGroup, Name: fmt.Sprint("g", n), Set: map[string]string{"k": strings.Repeat("x", 10<<20)},
			})
		}
		state.Apply(1, &metadata.Batch{Now: time.Now().UnixMilli(), Commands: commands}, nil, nil)
		var bound int64
		w := newWorld(t, func(c *replica.Config) {
			smallSnapshots(c)
			c.SectionBytes = bound
		})
		ref := w.putSnapshot(state.Snapshot(), oneSection(t, state.Snapshot()))
		w.onlySnapshot(ref)

		a := w.start("a")
		time.Sleep(time.Minute)
		require.Nil(t, a.Owner())
		require.ErrorContains(t, a.Fault(), "limit 67108864")
		w.stop(a)

		bound = 128 << 20
		b := w.start("b")
		w.waitOwner(b, time.Minute)
		require.Equal(t, wantNames(1), w.names(b))
		for range 2 {
			w.fill(b, 12_000)
			time.Sleep(5 * time.Second)
		}
		require.NotContains(t, w.refs(), ref)
		w.stop(b)

		bound = 0
		c := w.start("c")
		w.waitOwner(c, time.Minute)
		require.Equal(t, wantNames(1), w.names(c))
		w.stop(c)
	})
}

// onlySnapshot makes a log of one entry that was trimmed, with that snapshot alone.
func (w *world) onlySnapshot(ref metalog.SnapshotRef) {
	w.t.Helper()
	l, _, err := w.store.Open("earlier", metalog.Config{})
	require.NoError(w.t, err)
	tenure, err := l.Acquire(w.t.Context(), metalog.Candidate{Replica: "earlier"})
	require.NoError(w.t, err)
	_, err = tenure.Append(w.t.Context(), 1, metadata.AppendBatch(nil, &metadata.Batch{}))
	require.NoError(w.t, err)
	require.NoError(w.t, tenure.SetSnapshots(w.t.Context(), []metalog.SnapshotRef{ref}))
	require.NoError(w.t, tenure.Trim(w.t.Context(), 1))
	require.NoError(w.t, tenure.Resign(w.t.Context()))
}
