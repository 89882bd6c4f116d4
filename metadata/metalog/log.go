package metalog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/internal/wait"
)

// log is the Log over a Store.
type log struct {
	store   Store
	cfg     Config
	metrics *metrics
}

// New gives the log that the store holds. It starts nothing.
func New(store Store, cfg Config) (Log, error) {
	cfg.ApplyDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("metadata log: %w", err)
	}
	return &log{store: store, cfg: cfg, metrics: newMetrics(cfg.Registerer)}, nil
}

func (l *log) Close() error {
	if l.cfg.Lease != nil {
		l.cfg.Lease.owners.forget(l.store.OwnerKey())
	}
	return nil
}

func (l *log) Status(ctx context.Context) (Status, error) {
	v, err := read(ctx, l, "read owner and tail", l.store.View)
	if err != nil {
		return Status{}, err
	}
	if l.cfg.Lease != nil {
		l.cfg.Lease.owners.compare(l.store.OwnerKey(), &v)
	}
	st := Status{Owned: v.Owned, Tail: v.Tail.Index}
	if v.Owned {
		st.Owner = v.Owner.public()
	}
	return st, nil
}

func (l *log) Ownership() Ownership {
	if l.cfg.Lease == nil {
		return Ownership{}
	}
	return l.cfg.Lease.owners.ownership(l.store.OwnerKey())
}

func (l *log) Snapshots(ctx context.Context) ([]SnapshotRef, error) {
	p, err := read(ctx, l, "read snapshot pointers", l.store.Snapshots)
	return p.Refs, err
}

func (l *log) Read(ctx context.Context, from uint64, maxBytes int) ([]Entry, uint64, error) {
	type answer struct {
		recs []Record
		tail Tail
	}
	limit := max(minReadEntries, maxBytes/l.cfg.EntryBytes)
	ans, err := read(ctx, l, "read log", func(ctx context.Context) (a answer, err error) {
		a.recs, a.tail, err = l.store.Range(ctx, from, limit)
		return a, err
	})
	if err != nil {
		return nil, 0, err
	}
	tail := ans.tail.Index
	switch {
	case from > tail+1:
		return nil, tail, fmt.Errorf("%w: it has entry %d, but the log ends at entry %d: etcd lost entries, for example by restoring a backup: "+
			"restore a newer one; docs/etcd.md lists what is lost otherwise", ErrAhead, from-1, tail)
	case from == tail+1 && len(ans.recs) == 0:
		return nil, tail, nil
	case len(ans.recs) == 0 || ans.recs[0].Index > from:
		return nil, tail, fmt.Errorf("%w: entry %d, the tail is %d", ErrTrimmed, from, tail)
	}
	entries, err := contiguous(ans.recs, from, tail, limit, maxBytes)
	return entries, tail, err
}

// contiguous proves that the records follow each other from index from on and reach either the limit or the tail,
// and cuts them to maxBytes.
func contiguous(recs []Record, from, tail uint64, limit, maxBytes int) ([]Entry, error) {
	for i := range recs {
		if want := from + uint64(i); recs[i].Index != want || want > tail {
			return nil, fmt.Errorf("%w: entry %d where %d was expected, the tail is %d", ErrCorrupt, recs[i].Index, want, tail)
		}
	}
	if last := recs[len(recs)-1].Index; len(recs) < limit && last != tail {
		return nil, fmt.Errorf("%w: entries end at %d, the tail is %d", ErrCorrupt, last, tail)
	}
	entries, bytes := make([]Entry, 0, len(recs)), 0
	for i := range recs {
		if bytes += len(recs[i].Payload); i > 0 && bytes > maxBytes {
			break
		}
		entries = append(entries, recs[i].Entry)
	}
	return entries, nil
}

func (l *log) Acquire(ctx context.Context, c Candidate) (Tenure, error) {
	if c.TakeOver {
		if err := l.evict(ctx, c.Replica); err != nil {
			return nil, err
		}
	}
	g, v, err := l.granted(ctx)
	if err != nil {
		return nil, err
	}
	claim := OwnerRecord{Replica: c.Replica, Address: c.Address, Nonce: rand.Uint64()}
	l.cfg.Lease.claim(claim.Nonce)
	owner, err := read(ctx, l, "claim ownership", func(ctx context.Context) (OwnerRecord, error) {
		return l.store.Claim(ctx, g.id, claim)
	})
	switch {
	case errors.Is(err, ErrLeaseGone):
		g.lose(err)
	case err == nil && owner.Nonce != claim.Nonce:
		err = fmt.Errorf("%w: %s", ErrHeld, owner.Replica)
	}
	if err != nil { // a claim without an answer may have taken effect
		l.cfg.Lease.disclaim(claim.Nonce)
		l.cfg.Lease.removeOrphan(l.store.OwnerKey())
		return nil, err
	}
	return l.begin(ctx, newTenure(l, g, v, owner))
}

// granted waits for the replica's lease and for a current view of ownership keys, for at most Timing.Read.
func (l *log) granted(ctx context.Context) (*Grant, *view, error) {
	if l.cfg.Lease == nil {
		return nil, nil, errors.New("log was opened without a lease, for reading")
	}
	ctx, cancel := context.WithTimeout(ctx, l.cfg.Timing.Read)
	defer cancel()
	g, err := l.cfg.Lease.Granted(ctx)
	if err != nil {
		return nil, nil, err
	}
	v, err := l.cfg.Lease.owners.current(ctx)
	return g, v, err
}

// begin reads the log's tail, which no other replica can change any more.
func (l *log) begin(ctx context.Context, t *tenure) (Tenure, error) {
	first, err := read(ctx, l, "read first entry", func(ctx context.Context) (r Record, err error) {
		recs, tail, err := l.store.Range(ctx, 1, 1)
		if err != nil || len(recs) == 0 {
			t.tail = tail
			return Record{Total: tail.Total}, err
		}
		t.tail = tail
		return recs[0], nil
	})
	if err == nil && !t.Valid() {
		err = t.fenced(nil)
	}
	if err != nil {
		_ = t.Resign(context.WithoutCancel(ctx))
		return nil, fmt.Errorf("begin tenure: %w", err)
	}
	t.began = t.tail.Index
	t.first = max(first.Index, 1)
	if first.Index == 0 {
		t.first = t.tail.Index + 1
	}
	t.trimmed.Store(first.before())
	t.total.Store(t.tail.Total)
	l.cfg.Logger.Info("acquired ownership", zap.Int64("tenure", t.id), zap.Uint64("tail", t.began),
		zap.Int64("log_bytes", t.Bytes()))
	return t, nil
}

// evict removes the ownership key that an earlier process of this replica left behind.
func (l *log) evict(ctx context.Context, replica string) error {
	v, err := read(ctx, l, "read owner", l.store.View)
	if err != nil || !v.Owned || v.Owner.Replica != replica {
		return err
	}
	return l.disown(ctx, "remove own ownership key", v.Owner.Tenure)
}

func (l *log) disown(ctx context.Context, what string, tenure int64) error {
	_, err := read(ctx, l, what, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, l.cfg.Lease.store.Disown(ctx, l.store.OwnerKey(), tenure)
	})
	return err
}

// Back-off between attempts at the store.
const (
	minBackoff = 20 * time.Millisecond
	maxBackoff = 500 * time.Millisecond
)

// read repeats an operation that may be repeated until it is answered, for at most Timing.Read.
func read[T any](ctx context.Context, l *log, what string, op func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.Timing.Read)
	defer cancel()
	for pause := minBackoff; ; pause = min(2*pause, maxBackoff) {
		v, err := attempt(ctx, l.cfg.Timing.Attempt, op)
		if err == nil {
			return v, nil
		}
		l.metrics.failedAttempts.Inc()
		if final(err) {
			return v, fmt.Errorf("%s: %w", what, err)
		}
		if sleep(ctx, pause) != nil {
			return v, fmt.Errorf("%s: %w: %w", what, ErrUnavailable, err)
		}
	}
}

func attempt[T any](ctx context.Context, limit time.Duration, op func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return op(ctx)
}

// final errors are answers: repeating the operation would not change them.
func final(err error) bool {
	return errors.Is(err, ErrCorrupt) || errors.Is(err, ErrUnsupported) || errors.Is(err, ErrLeaseGone)
}

// sleep waits for d with jitter, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	return wait.For(ctx, d/2+rand.N(d/2+1))
}
