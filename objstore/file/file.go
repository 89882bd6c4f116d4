// Package file is a bucket in a directory, for one machine. Objects are plain files: <dir>/<key>.
//
// A put writes a file under <dir>/.tmp, syncs it, links it to its name and syncs the directory, so that no name ever
// shows a torn object, also after a power failure. Every open bucket writes to a directory of its own below .tmp,
// which it keeps locked; opening a bucket clears the directories whose owner is gone:
//
//	.tmp/lock                 held while a bucket is opened
//	.tmp/<random>/lock        held by the bucket that owns the directory, for as long as it is open
//	.tmp/<random>/<n>         an object being written, whole or in parts
//	.tmp/<random>/<n>.upload  its key, if in parts
//
// Key segments become file names: at most 255 bytes each, and the first one is not ".tmp".
package file

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet-io/freshet/objstore"
)

// tmpName is the directory of unfinished objects.
const tmpName = ".tmp"

// writeBytes is how much is written between two looks at the context.
const writeBytes = 4 << 20

// Bucket keeps objects in a directory. Its time is time.Now.
type Bucket struct {
	dir string
	tmp *tmpDir

	next atomic.Uint64 // number of the next temporary file

	// dirs makes directories durable before an object in them is reported so.
	dirs struct {
		sync.Mutex
		durable map[string]bool // slash-separated, relative
	}
}

var _ objstore.Bucket = (*Bucket)(nil)

// Open opens the bucket in dir, which is created if need be. It removes what writers that died left unfinished, and,
// if no other bucket is open on dir, empty directories.
func Open(dir string) (*Bucket, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open bucket: %w", err)
	}
	if err := mkdirAllDurable(dir); err != nil {
		return nil, fmt.Errorf("open bucket: %w", err)
	}
	tmp, err := openTmp(dir)
	if err != nil {
		return nil, fmt.Errorf("open bucket: %w", err)
	}
	b := &Bucket{dir: dir, tmp: tmp}
	b.dirs.durable = map[string]bool{".": true}
	return b, nil
}

// Close gives up the bucket's directory for unfinished objects.
func (b *Bucket) Close() error { return b.tmp.close() }

// Put creates the object. Errors: ErrAlreadyExists, ErrChecksum, ErrFull, ErrReadOnly, ErrOutcomeUnknown (the directory could
// not be synced), the file system's otherwise; after those nothing happened.
func (b *Bucket) Put(ctx context.Context, key string, body objstore.Body) error {
	if err := b.put(ctx, key, body); err != nil {
		return fmt.Errorf("put %s: %w", key, mapWrite(err))
	}
	return nil
}

func (b *Bucket) put(ctx context.Context, key string, body objstore.Body) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if err := body.CheckSize(); err != nil {
		return err
	}
	tmp := filepath.Join(b.tmp.path, fmt.Sprint(b.next.Add(1)))
	defer os.Remove(tmp)
	if err := writeSynced(ctx, tmp, body); err != nil {
		return err
	}
	return b.publish(tmp, key)
}

// publish gives a synced file its key. Errors: ErrAlreadyExists, ErrOutcomeUnknown, the file system's otherwise.
func (b *Bucket) publish(tmp, key string) error {
	name := b.path(key)
	linkErr := b.link(tmp, name, parentOf(key))
	if linkErr != nil && !errors.Is(linkErr, fs.ErrExist) {
		return linkErr
	}
	// Also when the name was taken: its writer may not have come to this line yet, and the caller may find the
	// object to be its own and report it durable (I1).
	if err := syncDir(filepath.Dir(name)); err != nil {
		return fmt.Errorf("%w: %w", objstore.ErrOutcomeUnknown, err)
	}
	if linkErr != nil {
		return objstore.ErrAlreadyExists
	}
	return nil
}

// writeSynced writes the body to a new file and syncs it.
func writeSynced(ctx context.Context, path string, body objstore.Body) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := write(ctx, f, body); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return f.Close()
}

// write writes the body and compares checksums.
func write(ctx context.Context, w io.Writer, body objstore.Body) error {
	var crc uint32
	for _, buf := range body.Buffers {
		for len(buf) > 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			piece := buf[:min(len(buf), writeBytes)]
			crc = crc32.Update(crc, objstore.Castagnoli, piece)
			if _, err := w.Write(piece); err != nil {
				return err
			}
			buf = buf[len(piece):]
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if crc != body.CRC32C {
		return fmt.Errorf("%w: given %08x, bytes have %08x", objstore.ErrChecksum, body.CRC32C, crc)
	}
	return nil
}

// link gives the file its name, in a directory made durable.
func (b *Bucket) link(tmp, name, parent string) error {
	if err := b.makeDurable(parent); err != nil {
		return err
	}
	return os.Link(tmp, name)
}

// Get opens a range of the object.
func (b *Bucket) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	f, info, err := b.open(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", key, err)
	}
	from, n, ok := objstore.Range(offset, length, info.Size())
	if !ok {
		f.Close()
		return nil, fmt.Errorf("get %s at %d: %w", key, offset, objstore.ErrRange)
	}
	return &reader{SectionReader: io.NewSectionReader(f, from, n), ctx: ctx, file: f}, nil
}

// reader reads a range until its context ends.
type reader struct {
	*io.SectionReader
	ctx  context.Context
	file *os.File
}

func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.SectionReader.Read(p)
}

func (r *reader) Close() error { return r.file.Close() }

// Head describes the object. The checksum is computed by reading it: the file has no place for one, and callers ask
// only after a put whose outcome they do not know.
func (b *Bucket) Head(ctx context.Context, key string) (objstore.Info, error) {
	f, info, err := b.open(ctx, key)
	if err != nil {
		return objstore.Info{}, fmt.Errorf("head %s: %w", key, err)
	}
	defer f.Close()
	sum := crc32.New(objstore.Castagnoli)
	if _, err := io.Copy(sum, &reader{SectionReader: io.NewSectionReader(f, 0, info.Size()), ctx: ctx}); err != nil {
		return objstore.Info{}, fmt.Errorf("head %s: %w", key, err)
	}
	return objstore.Info{
		Key: key, Size: info.Size(), Modified: info.ModTime(), CRC32C: sum.Sum32(), HasCRC: true,
	}, nil
}

func (b *Bucket) open(ctx context.Context, key string) (*os.File, fs.FileInfo, error) {
	if err := checkKey(key); err != nil {
		return nil, nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	f, err := os.Open(b.path(key))
	if isMissing(err) {
		return nil, nil, objstore.ErrNotFound
	}
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = objstore.ErrNotFound
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// Delete removes the objects that exist. Their directories stay until the bucket is opened again.
func (b *Bucket) Delete(ctx context.Context, keys []string) error {
	if err := objstore.CheckKeys(keys); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	dirs, failed := make(map[string]bool), make(map[string]error)
	for _, key := range keys {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("delete: %w", err)
		}
		if err := checkKey(key); err != nil {
			return fmt.Errorf("delete: %w", err)
		}
		err := os.Remove(b.path(key))
		if isMissing(err) {
			continue
		}
		if err != nil {
			failed[key] = mapWrite(err)
			continue
		}
		dirs[filepath.Dir(b.path(key))] = true
	}
	for dir := range dirs {
		if err := syncDir(dir); err != nil {
			return fmt.Errorf("delete: %w", err)
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	return objstore.NewDeleteError(failed)
}

// Now is this machine's clock.
func (b *Bucket) Now(context.Context) (time.Time, error) { return time.Now(), nil }

func (b *Bucket) path(key string) string { return filepath.Join(b.dir, filepath.FromSlash(key)) }

func checkKey(key string) error {
	if err := objstore.CheckKey(key); err != nil {
		return err
	}
	if first, _, _ := strings.Cut(key, "/"); first == tmpName {
		return fmt.Errorf("%w: %q is where unfinished objects are", objstore.ErrKey, tmpName)
	}
	return nil
}

// isMissing is true for a file that is not there, also because what should be its directory is a file.
func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotDir)
}
