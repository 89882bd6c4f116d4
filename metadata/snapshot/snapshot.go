// Package snapshot keeps snapshots of a virtual cluster's state in the bucket. One snapshot is a few objects under a
// name of its own, created once, never changed:
//
//	<prefix><index, 16 hex digits>-<random, 8 hex digits>/part-<number, 5 digits>   the encoded state, cut in parts
//	<prefix><index>-<random>/manifest                                                JSON, written last
//
// Members of the manifest are in the order of this table (internal/bytetable). testdata/manifest.golden has an example.
//
// Manifest:
//
//	member         type    meaning
//	format         number  1
//	index          number  of the log entry that the state is after
//	hash           string  metadata.State.Hash, 16 hex digits
//	bytes          number  of all parts
//	parts          array   in order
//	parts[].bytes  number  at most 16 MiB
//	parts[].crc    number  CRC-32C
//
// A snapshot exists when its manifest does, every part matches it, and a pass other than the writing one has decoded a
// state with the hash that the manifest has: Write makes that pass before it returns.
// Whoever points to a snapshot keeps the manifest's checksum beside the name.
package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/metalog"
)

var (
	// ErrCorrupt: the snapshot's objects are torn, missing or not what was written. Another snapshot must serve.
	ErrCorrupt = errors.New("snapshot is corrupt")
	// ErrUnreadable is returned when the objects are what was written and still give no state, or one with another hash. It
	// comes with ErrCorrupt.
	ErrUnreadable = errors.New("snapshot cannot be decoded to the state that was written")
	// ErrUnavailable: the bucket did not give or take the bytes in time. Try again later.
	ErrUnavailable = errors.New("snapshot storage is unavailable")
)

// Bounds. PartBytes is the memory that writing or reading a snapshot takes, beside the state itself.
const (
	PartBytes        = 16 << 20
	maxManifestBytes = 4 << 20
	maxParts         = 65536 // 1 TiB
	manifestFormat   = 1

	putTimeout  = 2 * time.Minute // of one part, with its retries
	getTimeout  = 30 * time.Second
	getAttempts = 5
)

// manifest describes the parts, in order.
type manifest struct {
	Format int    `json:"format"`
	Index  uint64 `json:"index"`
	Hash   string `json:"hash"` // metadata.State.Hash, 16 hex digits
	Bytes  int64  `json:"bytes"`
	Parts  []part `json:"parts"`
}

type part struct {
	Bytes int64  `json:"bytes"`
	CRC   uint32 `json:"crc"` // CRC-32C
}

// newName makes a name that no other attempt has, so that objects of an attempt that failed are never met again.
func newName(prefix string, index uint64) string {
	return fmt.Sprintf("%s%016x-%08x", prefix, index, rand.Uint32())
}

func partKey(name string, n int) string { return fmt.Sprintf("%s/part-%05d", name, n) }

func manifestKey(name string) string { return name + "/manifest" }

// indexOf reads the index out of an object's key.
func indexOf(prefix, key string) (uint64, bool) {
	digits, _, ok := strings.Cut(strings.TrimPrefix(key, prefix), "-")
	if !ok || len(digits) != 16 {
		return 0, false
	}
	index, err := strconv.ParseUint(digits, 16, 64)
	return index, err == nil
}

func parseManifest(p []byte, ref metalog.SnapshotRef) (*manifest, error) {
	m := new(manifest)
	if err := json.Unmarshal(p, m); err != nil {
		return nil, fmt.Errorf("%w: manifest of %s: %w", ErrCorrupt, ref.Name, err)
	}
	if m.Format > manifestFormat {
		return nil, fmt.Errorf("%w: manifest of %s has format %d, this program reads format %d: start a newer program",
			metadata.ErrUnsupported, ref.Name, m.Format, manifestFormat)
	}
	var bytes int64
	for _, p := range m.Parts {
		if p.Bytes < 1 || p.Bytes > PartBytes {
			return nil, fmt.Errorf("%w: manifest of %s has a part of %d bytes", ErrCorrupt, ref.Name, p.Bytes)
		}
		bytes += p.Bytes
	}
	if m.Format != manifestFormat || m.Index != ref.Index || m.Bytes != bytes || len(m.Parts) > maxParts {
		return nil, fmt.Errorf("%w: manifest of %s does not fit the snapshot", ErrCorrupt, ref.Name)
	}
	return m, nil
}
