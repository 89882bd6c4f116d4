package curve

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/metalog/memlog"
)

// fileStore is a log in memory whose payloads are in a file, so that they do not count as the process's memory. With etcd they do not
// either. The file is never trimmed.
type fileStore struct {
	*memlog.Replica
	file *os.File
	end  int64
}

func newFileStore(t *testing.T) *fileStore {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, file.Close()) })
	return &fileStore{Replica: memlog.New().Connect("a"), file: file}
}

// Append implements metalog.Store. A tenure calls it for one record at a time.
func (s *fileStore) Append(
	ctx context.Context, tenure int64, tail metalog.Tail, rec *metalog.Record,
) (ok bool, existing *metalog.Record, err error) {
	if _, err := s.file.WriteAt(rec.Payload, s.end); err != nil {
		return false, nil, err
	}
	placed := *rec
	placed.Payload = binary.AppendVarint(binary.AppendVarint(nil, s.end), int64(len(rec.Payload)))
	s.end += int64(len(rec.Payload))
	if ok, existing, err = s.Replica.Append(ctx, tenure, tail, &placed); err == nil && existing != nil {
		err = s.read(existing)
	}
	return ok, existing, err
}

// Range implements metalog.Store.
func (s *fileStore) Range(ctx context.Context, from uint64, limit int) ([]metalog.Record, metalog.Tail, error) {
	recs, tail, err := s.Replica.Range(ctx, from, limit)
	for i := range recs {
		if err == nil {
			err = s.read(&recs[i])
		}
	}
	return recs, tail, err
}

// read replaces a payload's place by the payload.
func (s *fileStore) read(rec *metalog.Record) error {
	at, n := binary.Varint(rec.Payload)
	size, _ := binary.Varint(rec.Payload[n:])
	rec.Payload = make([]byte, size)
	_, err := s.file.ReadAt(rec.Payload, at)
	return err
}
