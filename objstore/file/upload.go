package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/freshet-io/freshet/objstore"
)

// uploadSuffix is that of the file beside an unfinished upload's, which holds its key.
const uploadSuffix = ".upload"

// upload is an object being written in parts to one temporary file.
type upload struct {
	bucket *Bucket
	key    string
	path   string   // of the temporary file
	file   *os.File // nil once closed
	sync   error    // of the sync: a second one might succeed without the bytes that the first one lost
	parts  objstore.Parts
	done   bool // completed or aborted
}

// Create begins an upload.
func (b *Bucket) Create(ctx context.Context, key string) (objstore.Upload, error) {
	u, err := b.createUpload(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("create upload of %s: %w", key, mapWrite(err))
	}
	return u, nil
}

func (b *Bucket) createUpload(ctx context.Context, key string) (*upload, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	u := &upload{bucket: b, key: key, path: filepath.Join(b.tmp.path, fmt.Sprint(b.next.Add(1)))}
	var err error
	if u.file, err = os.OpenFile(u.path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644); err != nil {
		return nil, err
	}
	if err := os.WriteFile(u.path+uploadSuffix, []byte(key), 0o644); err != nil {
		u.remove()
		os.Remove(u.path) // also if the file beside it was not made
		return nil, err
	}
	return u, nil
}

// Part writes the part where it belongs. What one that failed left is overwritten when it comes again.
func (u *upload) Part(ctx context.Context, number int, offset int64, body objstore.Body) error {
	if err := u.part(ctx, number, offset, body); err != nil {
		return fmt.Errorf("put part %d of %s: %w", number, u.key, mapWrite(err))
	}
	return nil
}

func (u *upload) part(ctx context.Context, number int, offset int64, body objstore.Body) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := u.parts.Check(number, offset, body); err != nil {
		return err
	}
	if err := u.check(); err != nil {
		return err
	}
	if u.file == nil {
		return errors.New("a part after Complete")
	}
	if err := write(ctx, io.NewOffsetWriter(u.file, offset), body); err != nil {
		return err
	}
	u.parts.Add(number, offset, body)
	return nil
}

// check returns ErrNotFound if the upload was aborted, by this bucket or another on the same directory.
func (u *upload) check() error {
	if u.done {
		return objstore.ErrNotFound
	}
	if _, err := os.Stat(u.path + uploadSuffix); isMissing(err) {
		return objstore.ErrNotFound
	}
	return nil
}

// Complete syncs the file, links it to its name and syncs the directory. Errors as for Put, and ErrNotFound.
func (u *upload) Complete(ctx context.Context) error {
	if err := u.complete(ctx); err != nil {
		return fmt.Errorf("complete upload of %s: %w", u.key, mapWrite(err))
	}
	return nil
}

func (u *upload) complete(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	_, size, _, err := u.parts.Whole()
	if err != nil {
		return err
	}
	if err := u.check(); err != nil {
		return err
	}
	if err := u.closeSynced(size); err != nil {
		return err
	}
	err = u.bucket.publish(u.path, u.key)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", objstore.ErrNotFound, err) // aborted meanwhile
	}
	if err != nil {
		return err // the file stays: Complete may be called again
	}
	u.remove()
	return nil
}

// closeSynced makes the bytes durable, once. What a failed last part left behind the others is cut off.
func (u *upload) closeSynced(size int64) error {
	if u.file == nil {
		return u.sync
	}
	if err := u.file.Truncate(size); err != nil {
		return err
	}
	u.sync = errors.Join(u.file.Sync(), u.file.Close())
	u.file = nil
	return u.sync
}

// Abort removes the file.
func (u *upload) Abort(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("abort upload of %s: %w", u.key, err)
	}
	u.remove()
	return nil
}

// remove forgets the upload. Files that cannot be removed go when a bucket is opened after this one's end.
func (u *upload) remove() {
	if u.file != nil {
		u.file.Close()
		u.file = nil
	}
	u.done = true
	removeUpload(u.path)
}

// removeUpload removes both files of an upload, and nothing that is none.
func removeUpload(path string) {
	if os.Remove(path+uploadSuffix) == nil {
		os.Remove(path)
	}
}

// Uploads gives one page of uploads under way, those of other buckets that are open on the directory too. Those of
// buckets that are gone went when this one was opened.
func (b *Bucket) Uploads(ctx context.Context, prefix, startAfter string, limit int) ([]objstore.UploadInfo, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("list uploads %s: %w", prefix, err)
	}
	if err := objstore.CheckLimit(limit); err != nil {
		return nil, fmt.Errorf("list uploads %s: %w", prefix, err)
	}
	base := filepath.Join(b.dir, tmpName)
	paths, err := filepath.Glob(filepath.Join(globEscape(base), "*", "*"+uploadSuffix))
	if err != nil {
		return nil, fmt.Errorf("list uploads %s: %w", prefix, err)
	}
	var all []objstore.UploadInfo
	for _, path := range paths {
		key, err := os.ReadFile(path)
		if isMissing(err) {
			continue // ended meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("list uploads %s: %w", prefix, err)
		}
		info, err := os.Stat(path)
		if err != nil || !strings.HasPrefix(string(key), prefix) || string(key) <= startAfter {
			continue
		}
		id, err := filepath.Rel(base, strings.TrimSuffix(path, uploadSuffix))
		if err != nil {
			return nil, fmt.Errorf("list uploads %s: %w", prefix, err)
		}
		all = append(all, objstore.UploadInfo{Key: string(key), ID: filepath.ToSlash(id), Initiated: info.ModTime()})
	}
	return objstore.PageUploads(all, limit), nil
}

// globEscape makes a path a pattern that fits it alone.
func globEscape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// AbortUpload removes the upload's files.
func (b *Bucket) AbortUpload(ctx context.Context, info objstore.UploadInfo) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("abort upload of %s: %w", info.Key, err)
	}
	if objstore.CheckKey(info.ID) != nil || strings.Count(info.ID, "/") != 1 {
		return fmt.Errorf("abort upload of %s: %q is no upload", info.Key, info.ID)
	}
	removeUpload(filepath.Join(b.dir, tmpName, filepath.FromSlash(info.ID)))
	return nil
}
