package objstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// Bounds of uploads in parts: those of S3, but for the largest part, whose checksum must be combinable.
const (
	MinPart  = 5 << 20 // bytes of every part but the last
	MaxPart  = 2 << 30 // bytes
	MaxParts = 10_000
)

// Upload is an object on its way in parts. Nothing shows under its key before Complete, and what never completes stays
// in the store, and costs, until it is aborted. It is used by one goroutine at a time.
type Upload interface {
	// Part gives the part of that number: 1, 2, ... in order, or the last number again, in place of what it was. A part
	// has 1 byte to MaxPart, all but the last at least MinPart. It returns nil only when the store has the part; after an
	// error the same number must be given again before the next. After Part returned nobody reads the buffers any more.
	// Errors: ErrNotFound (the upload was aborted), ErrThrottled, ErrChecksum, ErrOutcomeUnknown, or the context's.
	Part(ctx context.Context, number int, body Body) error

	// Complete makes an object of the parts, at least one, and never replaces one. It returns nil only when the object
	// is durable. Errors: ErrAlreadyExists, after which only Abort makes sense; ErrNotFound (the upload was aborted, or
	// a Complete before this one took effect); ErrConflict, ErrThrottled, ErrOutcomeUnknown, after which it may be
	// called again; or the context's. Called again after it took effect it answers nil, ErrAlreadyExists or ErrNotFound:
	// only Head tells (durable).
	Complete(ctx context.Context) error

	// Abort drops the parts. An upload that is gone already, completed or aborted, is no error. Errors: ErrThrottled,
	// ErrOutcomeUnknown, or the context's.
	Abort(ctx context.Context) error
}

// UploadInfo describes an upload that was neither completed nor aborted.
type UploadInfo struct {
	Key       string
	ID        string    // the store's name for it; several uploads may have the same key
	Initiated time.Time // by the store's clock
}

// Parts is the account that an Upload keeps of its parts.
type Parts struct {
	Count  int
	Size   int64  // of the object so far, bytes
	CRC32C uint32 // of the object so far

	last   int64  // size of the last part
	before int64  // Size without the last part
	crc    uint32 // CRC32C without the last part
}

// Check returns an error unless the body can be the part of that number.
func (p *Parts) Check(number int, body Body) error {
	switch {
	case number < 1 || number > MaxParts || number != p.Count && number != p.Count+1:
		return fmt.Errorf("part %d after part %d of at most %d", number, p.Count, MaxParts)
	case body.Size < 1 || body.Size > MaxPart:
		return fmt.Errorf("part of %d bytes, want 1 to %d", body.Size, MaxPart)
	case number > 1 && number > p.Count && p.last < MinPart:
		return fmt.Errorf("part %d after one of %d bytes, below the least of %d", number, p.last, MinPart)
	}
	return body.CheckSize()
}

// Offset is where the part of that number, which passed Check, begins in the object.
func (p *Parts) Offset(number int) int64 {
	if number == p.Count {
		return p.before
	}
	return p.Size
}

// Add counts the part of that number, which passed Check and which the store has.
func (p *Parts) Add(number int, body Body) {
	if number > p.Count {
		p.before, p.crc = p.Size, p.CRC32C
	}
	p.Count = number
	p.Size = p.before + body.Size
	p.CRC32C = CombineCRC32C(p.crc, body.CRC32C, body.Size)
	p.last = body.Size
}

// CheckComplete returns an error if there is no part.
func (p *Parts) CheckComplete() error {
	if p.Count == 0 {
		return fmt.Errorf("an upload needs a part")
	}
	return nil
}

// PageUploads sorts the uploads by key and id and gives the first page of them: at most limit, and not ending between
// two uploads of one key unless all of it is of that key.
func PageUploads(all []UploadInfo, limit int) []UploadInfo {
	slices.SortFunc(all, func(a, b UploadInfo) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.ID, b.ID))
	})
	if len(all) <= limit {
		return all
	}
	if page := DropLastKey(all[:limit]); all[limit].Key == all[limit-1].Key && len(page) > 0 {
		return page
	}
	return all[:limit]
}

// DropLastKey cuts the uploads of the last one's key off.
func DropLastKey(page []UploadInfo) []UploadInfo {
	n := len(page)
	for n > 0 && page[n-1].Key == page[len(page)-1].Key {
		n--
	}
	return page[:n]
}
