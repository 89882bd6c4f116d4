package mem

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"time"

	"github.com/freshet-io/freshet/objstore"
)

// upload is an object under way. The bucket's lock guards whether it is registered, and its data.
type upload struct {
	bucket *Bucket
	info   objstore.UploadInfo
	parts  objstore.Parts
	data   map[int][]byte // by number of the part
}

// Create begins an upload.
func (b *Bucket) Create(ctx context.Context, key string) (objstore.Upload, error) {
	if err := check(ctx, key); err != nil {
		return nil, fmt.Errorf("create upload: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.nextUpload++
	u := &upload{bucket: b, data: make(map[int][]byte), info: objstore.UploadInfo{
		Key: key, ID: strconv.FormatUint(b.mu.nextUpload, 10), Initiated: time.Now(),
	}}
	if b.mu.uploads == nil {
		b.mu.uploads = make(map[string]*upload)
	}
	b.mu.uploads[u.info.ID] = u
	return u, nil
}

// Part copies the buffers.
func (u *upload) Part(ctx context.Context, number int, offset int64, body objstore.Body) error {
	if err := u.part(ctx, number, offset, body); err != nil {
		return fmt.Errorf("put part %d of %s: %w", number, u.info.Key, err)
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
	data := bytes.Join(body.Buffers, nil)
	if crc := crc32.Checksum(data, objstore.Castagnoli); crc != body.CRC32C {
		return fmt.Errorf("%w: given %08x, bytes have %08x", objstore.ErrChecksum, body.CRC32C, crc)
	}
	u.bucket.mu.Lock()
	defer u.bucket.mu.Unlock()
	if u.bucket.mu.uploads[u.info.ID] != u {
		return objstore.ErrNotFound
	}
	u.data[number] = data
	u.parts.Add(number, offset, body)
	return nil
}

// Complete creates the object.
func (u *upload) Complete(ctx context.Context) error {
	if err := u.complete(ctx); err != nil {
		return fmt.Errorf("complete upload of %s: %w", u.info.Key, err)
	}
	return nil
}

func (u *upload) complete(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	count, size, crc, err := u.parts.Whole()
	if err != nil {
		return err
	}
	b := u.bucket
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.uploads[u.info.ID] != u {
		return objstore.ErrNotFound
	}
	if _, taken := b.mu.objects.Get(u.info.Key); taken {
		return objstore.ErrAlreadyExists
	}
	data := make([]byte, 0, size)
	for number := 1; number <= count; number++ {
		data = append(data, u.data[number]...)
	}
	b.mu.objects.Set(u.info.Key, object{data: data, modified: time.Now(), crc: crc})
	delete(b.mu.uploads, u.info.ID)
	u.data = nil
	return nil
}

// Abort drops the parts.
func (u *upload) Abort(ctx context.Context) error {
	return u.bucket.AbortUpload(ctx, u.info)
}

// Uploads gives one page of uploads under way.
func (b *Bucket) Uploads(ctx context.Context, prefix, startAfter string, limit int) ([]objstore.UploadInfo, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("list uploads %s: %w", prefix, err)
	}
	if err := objstore.CheckLimit(limit); err != nil {
		return nil, fmt.Errorf("list uploads %s: %w", prefix, err)
	}
	var all []objstore.UploadInfo
	b.mu.RLock()
	for _, u := range b.mu.uploads {
		if strings.HasPrefix(u.info.Key, prefix) && u.info.Key > startAfter {
			all = append(all, u.info)
		}
	}
	b.mu.RUnlock()
	return objstore.PageUploads(all, limit), nil
}

// AbortUpload forgets the upload.
func (b *Bucket) AbortUpload(ctx context.Context, info objstore.UploadInfo) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("abort upload of %s: %w", info.Key, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.mu.uploads, info.ID)
	return nil
}
