package registry

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/freshet-io/freshet/internal/accesskey"
)

// attempts counts the attempts of subjects that share a slot.
type attempts struct {
	Head
	Slot  string    `json:"-"` // 16 hexadecimal digits
	Count int       `json:"count"`
	Last  time.Time `json:"last"`
}

const attemptKind = "attempts"

// Bounds of attempts.
const (
	// MaxAttemptSlots bounds the records of attempts. Subjects that share a slot share its pauses.
	MaxAttemptSlots = 1 << 16
	// FreeAttempts is the number of attempts without a pause.
	FreeAttempts = 5
	// MaxPause bounds the pause between two attempts. The first pause is a second, and each further one twice as long.
	MaxPause = 15 * time.Minute
	// AttemptsEnd is the time after the last attempt from which the count begins again.
	AttemptsEnd = 24 * time.Hour
)

func (a *attempts) kind() string     { return attemptKind }
func (a *attempts) place() []*string { return []*string{&a.Slot} }
func (a *attempts) check() error {
	if a.Count < 0 {
		return fmt.Errorf("%d attempts", a.Count)
	}
	return created(a.Last)
}

// pause returns the time after the last attempt in which no further one is made.
func (a *attempts) pause() time.Duration {
	if a.Count < FreeAttempts {
		return 0
	}
	return min(time.Second<<min(a.Count-FreeAttempts, 10), MaxPause) // 1,024 s are above MaxPause
}

// PausedError is returned for an attempt that comes too early.
type PausedError struct{ After time.Duration }

func (e *PausedError) Error() string {
	return fmt.Sprintf("too many attempts: try again in %v", e.After)
}

// Attempt counts an attempt of a subject, such as logins from an address. The count holds for all Registries, and is made before the attempt, so that
// attempts at once are counted. Errors: PausedError, those of etcd.
func (r *Registry) Attempt(ctx context.Context, subject string) error {
	err := r.countAttempt(ctx, subject, func(a *attempts, now time.Time) error {
		if after := a.Last.Add(a.pause()).Sub(now); after > 0 {
			return &PausedError{After: after}
		}
		a.Count, a.Last = a.Count+1, now
		return nil
	})
	if errors.Is(err, ErrConflict) { // others of the subject came first
		return &PausedError{After: time.Second}
	}
	return err
}

// Forgive takes back the last attempt of a subject, because it has succeeded. Errors: ErrConflict, those of etcd.
func (r *Registry) Forgive(ctx context.Context, subject string) error {
	return r.countAttempt(ctx, subject, func(a *attempts, now time.Time) error {
		a.Count, a.Last = max(0, a.Count-1), now
		return nil
	})
}

// attemptSlot returns the slot of a subject.
func attemptSlot(subject string) string {
	hash := accesskey.HashOf(subject)
	return entryNumber(binary.BigEndian.Uint64(hash[:]) % MaxAttemptSlots)
}

// countAttempt changes the record of a subject's slot.
func (r *Registry) countAttempt(ctx context.Context, subject string, change func(*attempts, time.Time) error) error {
	slot := attemptSlot(subject)
	return retry(func() (bool, error) {
		now := r.now()
		a, err := read[attempts](ctx, r, slot)
		switch {
		case errors.Is(err, ErrNotFound):
			a = &attempts{Slot: slot}
		case err != nil:
			return false, err
		}
		if now.Sub(a.Last) >= AttemptsEnd {
			a.Count = 0
		}
		if err := change(a, now); err != nil {
			return false, err
		}
		op, err := r.put(a)
		if err != nil {
			return false, err
		}
		return r.commit(ctx, "count attempt", []clientv3.Cmp{r.unchanged(a)}, []clientv3.Op{op})
	})
}
