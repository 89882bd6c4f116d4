package objstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Bounds of uploads in parts: those of S3, but for the largest part, whose checksum must be combinable.
const (
	MinPart  = 5 << 20 // bytes of every part but the last
	MaxPart  = 2 << 30 // bytes
	MaxParts = 10_000
)

// Upload is an object on its way in parts. Nothing shows under its key before Complete, and what never completes stays
// in the store, and costs, until it is aborted. Parts are given side by side or one after the other; Complete and Abort
// are called when no Part is under way.
type Upload interface {
	// Part gives the part of that number, which begins at that offset in the object; the first is 1 and begins at 0. Parts
	// come in any order, and one number at a time may come again, in place of what it was. A part has 1 byte to MaxPart,
	// all but the last at least MinPart. It returns nil only when the store has the part; after an error the same number
	// must be given again before Complete. After Part returned nobody reads the buffers any more. Errors: ErrNotFound (the
	// upload was aborted), ErrThrottled, ErrChecksum, ErrOutcomeUnknown, or the context's.
	Part(ctx context.Context, number int, offset int64, body Body) error

	// Complete makes an object of the parts, at least one, each beginning where the one before it ends, and never replaces
	// an object. It returns nil only when the object is durable. Errors: ErrAlreadyExists, after which only Abort makes
	// sense; ErrNotFound (the upload was aborted, or a Complete before this one took effect); ErrConflict, ErrThrottled,
	// ErrOutcomeUnknown, after which it may be called again; or the context's. Called again after it took effect it answers
	// nil, ErrAlreadyExists or ErrNotFound: only Head tells (durable).
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

// Parts is the account that an Upload keeps of its parts. It is safe for concurrent use.
type Parts struct {
	mu struct {
		sync.Mutex
		sent map[int]sentPart
	}
}

type sentPart struct {
	offset, size int64
	crc          uint32
}

// Check returns an error unless the body can be the part of that number, at that offset.
func (p *Parts) Check(number int, offset int64, body Body) error {
	switch {
	case number < 1 || number > MaxParts:
		return fmt.Errorf("part %d, want 1 to %d", number, MaxParts)
	case body.Size < 1 || body.Size > MaxPart:
		return fmt.Errorf("part of %d bytes, want 1 to %d", body.Size, MaxPart)
	case number == 1 && offset != 0 || offset < int64(number-1)*MinPart || offset > int64(number-1)*MaxPart:
		return fmt.Errorf("part %d at %d, after parts of %d to %d bytes", number, offset, MinPart, MaxPart)
	}
	return body.CheckSize()
}

// Add counts the part of that number, which passed Check and which the store has.
func (p *Parts) Add(number int, offset int64, body Body) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.sent == nil {
		p.mu.sent = make(map[int]sentPart)
	}
	p.mu.sent[number] = sentPart{offset: offset, size: body.Size, crc: body.CRC32C}
}

// Whole gives how many parts there are, and the size and checksum of the object they make; an error unless they make one.
func (p *Parts) Whole() (count int, size int64, crc uint32, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.mu.sent) == 0 {
		return 0, 0, 0, errors.New("an upload needs a part")
	}
	for number := 1; number <= len(p.mu.sent); number++ {
		part, ok := p.mu.sent[number]
		switch {
		case !ok:
			return 0, 0, 0, fmt.Errorf("%d parts, but none is part %d", len(p.mu.sent), number)
		case part.offset != size:
			return 0, 0, 0, fmt.Errorf("part %d is at %d, the one before it ends at %d", number, part.offset, size)
		case part.size < MinPart && number < len(p.mu.sent):
			return 0, 0, 0, fmt.Errorf("part %d has %d bytes and is not the last; the least are %d", number, part.size, MinPart)
		}
		size += part.size
		crc = CombineCRC32C(crc, part.crc, part.size)
	}
	return len(p.mu.sent), size, crc, nil
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
