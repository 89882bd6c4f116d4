package registry

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// AttemptKind is a kind of attempts. Kinds share no records, so attempts of one kind never pause those of another.
type AttemptKind int

// Kinds of attempts. Their numbers are in keys of etcd.
const (
	LoginsOfAccount      AttemptKind = iota // subject: e-mail address. Familiar addresses do not count
	LoginsFromHost                          // subject: IPv4 address or IPv6 /64
	LoginsFromNetwork                       // subject: IPv4 /24 or IPv6 /48
	Logins                                  // all from addresses that are not familiar; no subject
	SignUpsFromHost                         // subject: as of LoginsFromHost
	SignUpsFromNetwork                      // subject: as of LoginsFromNetwork
	SignUps                                 // all; no subject
	NewClusters                             // all but those of sign-ups; no subject
	MailsTo                                 // subject: e-mail address
	Resets                                  // all of passwords; no subject
	familiarLogins                          // in Account.Addresses
	familiarLoginsPassed                    // in Account.Passed
)

// Bounds of attempts.
const (
	// MaxAttemptSlots bounds the records of each kind of attempts. Subjects that share a slot share its pauses.
	MaxAttemptSlots = 1 << 14
	// FreeAttempts is the number of attempts of an account or a host without a pause.
	FreeAttempts = 5
	// FreeNetworkAttempts is the number of attempts of a network without a pause.
	FreeNetworkAttempts = 50
	// MaxPause bounds the pause between two attempts. The first pause is a second, and each further one twice as long.
	MaxPause = 15 * time.Minute
	// AttemptsEnd is the time after the last attempt from which the count begins again.
	AttemptsEnd = 24 * time.Hour

	// MaxLogins bounds the logins in LoginsWindow from addresses that are not familiar.
	MaxLogins    = 100
	LoginsWindow = 10 * time.Second
	// MaxSignUps bounds the sign-ups in SignUpsWindow, and apart from them the requests for a reset of a password.
	MaxSignUps    = 10
	SignUpsWindow = time.Minute
	// MaxNewClusters bounds the clusters that teams create in NewClustersWindow.
	MaxNewClusters    = 30
	NewClustersWindow = time.Minute
	// MaxAccountLogins bounds the successful logins of an account in AccountLoginsWindow. With MaxAccounts accounts, 56 a second.
	MaxAccountLogins    = 20
	AccountLoginsWindow = time.Hour
)

// attemptLimit is the limit of a kind of attempts.
type attemptLimit struct {
	of    string // for people
	free  int    // attempts without a pause
	first time.Duration
	end   time.Duration // from the last attempt to a new count; of a rate, the length of its window
}

// rate returns the limit of a rate: free attempts in each window, the first of which begins it.
func rate(of string, free int, window time.Duration) attemptLimit {
	return attemptLimit{of, free, window, window}
}

var attemptLimits = [...]attemptLimit{
	LoginsOfAccount:      {"logins of this account", FreeAttempts, time.Second, AttemptsEnd},
	LoginsFromHost:       {"logins from this IP address", FreeAttempts, time.Second, AttemptsEnd},
	LoginsFromNetwork:    {"logins from this network", FreeNetworkAttempts, time.Second, AttemptsEnd},
	Logins:               rate("logins of all accounts", MaxLogins, LoginsWindow),
	SignUpsFromHost:      {"sign-ups or requests for mails from this IP address", FreeAttempts, time.Second, AttemptsEnd},
	SignUpsFromNetwork:   {"sign-ups or requests for mails from this network", FreeNetworkAttempts, time.Second, AttemptsEnd},
	SignUps:              rate("sign-ups of all clients", MaxSignUps, SignUpsWindow),
	NewClusters:          rate("new clusters of all teams", MaxNewClusters, NewClustersWindow),
	MailsTo:              {"mails to this e-mail address", FreeAttempts, time.Second, AttemptsEnd},
	Resets:               rate("password resets of all clients", MaxSignUps, SignUpsWindow),
	familiarLogins:       {"logins of this account from this IP address", FreeAttempts, time.Second, AttemptsEnd},
	familiarLoginsPassed: rate("logins of this account", MaxAccountLogins, AccountLoginsWindow),
}

func (l *attemptLimit) isRate() bool { return l.first == l.end }

// tries counts attempts.
type tries struct {
	Count int       `json:"count,omitempty"`
	Last  time.Time `json:"last,omitzero"` // time of the last attempt; of a rate, the begin of its window
}

// pause returns a PausedError if an attempt is too early.
func (t *tries) pause(l *attemptLimit, now time.Time) error {
	if t.Count < l.free || now.Sub(t.Last) >= l.end {
		return nil
	}
	pause := l.first
	if !l.isRate() {
		pause = min(l.first<<min(t.Count-l.free, 10), MaxPause) // 1,024 s are above MaxPause
	}
	if after := t.Last.Add(pause).Sub(now); after > 0 {
		return &PausedError{Of: l.of, After: after}
	}
	return nil
}

// add counts an attempt.
func (t *tries) add(l *attemptLimit, now time.Time) {
	if now.Sub(t.Last) >= l.end {
		t.Count = 0
	}
	if t.Count == 0 || !l.isRate() {
		t.Last = now
	}
	t.Count++
}

// forgive takes an attempt back.
func (t *tries) forgive() { t.Count = max(0, t.Count-1) }

// PausedError is returned for an attempt that comes too early.
type PausedError struct {
	Of    string // for example "logins of this account"
	After time.Duration
}

func (e *PausedError) Error() string {
	return fmt.Sprintf("too many %s: try again in %v", e.Of, e.After)
}

// Attempt is an attempt by a subject.
type Attempt struct {
	Kind    AttemptKind
	Subject string
}

// attempts counts the attempts of the subjects of one kind that share a slot.
type attempts struct {
	Head
	Slot string `json:"-"` // 16 hexadecimal digits: 8 of the kind, 8 of the slot
	tries
}

const (
	attemptKind = "attempts"
	slotBits    = 32
)

func (a *attempts) kind() string     { return attemptKind }
func (a *attempts) place() []*string { return []*string{&a.Slot} }
func (a *attempts) check() error {
	return errors.Join(a.tries.check(), created(a.Last))
}

func (t *tries) check() error {
	if t.Count < 0 {
		return fmt.Errorf("%d attempts", t.Count)
	}
	return nil
}

// Attempt counts attempts, for example one login as that of its account and that of its address. If one of them is too early, it counts none and writes
// nothing. The counts hold for all Registries, and are made before the attempt, so that attempts at once are counted. Errors: PausedError, those of etcd.
func (r *Registry) Attempt(ctx context.Context, all ...Attempt) error {
	return crowded(r.countAttempts(ctx, all, attempt))
}

// attempt counts an attempt unless it is too early.
func attempt(t *tries, l *attemptLimit, now time.Time) error {
	if err := t.pause(l, now); err != nil {
		return err
	}
	t.add(l, now)
	return nil
}

// crowded returns a PausedError for a conflict, because other attempts came first.
func crowded(err error) error {
	if errors.Is(err, ErrConflict) {
		return &PausedError{Of: "attempts at once", After: time.Second}
	}
	return err
}

// Forgive takes attempts back, because they succeeded or were not made. Errors: ErrConflict, those of etcd.
func (r *Registry) Forgive(ctx context.Context, all ...Attempt) error {
	return r.countAttempts(ctx, all, func(t *tries, _ *attemptLimit, _ time.Time) error {
		t.forgive()
		return nil
	})
}

// countAttempts changes the records of attempts in one transaction.
func (r *Registry) countAttempts(ctx context.Context, all []Attempt, change func(*tries, *attemptLimit, time.Time) error) error {
	return retry(ctx, func() (bool, error) {
		cmps, ops, err := r.planAttempts(ctx, all, change)
		if err != nil {
			return false, err
		}
		return r.commit(ctx, "count attempts", cmps, ops)
	})
}

// planAttempts returns the comparisons and operations that change the records of attempts.
func (r *Registry) planAttempts(
	ctx context.Context, all []Attempt, change func(*tries, *attemptLimit, time.Time) error,
) (cmps []clientv3.Cmp, ops []clientv3.Op, err error) {
	secret, err := r.attemptSecret(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, attempt := range all {
		slot := attemptSlot(secret, attempt)
		a, err := read[attempts](ctx, r, slot)
		switch {
		case errors.Is(err, ErrNotFound):
			a = &attempts{Slot: slot}
		case err != nil:
			return nil, nil, err
		}
		now := r.now()
		if err := change(&a.tries, &attemptLimits[attempt.Kind], now); err != nil {
			return nil, nil, err
		}
		if a.Last.IsZero() { // forgiven, and not counted
			a.Last = now
		}
		op, err := r.put(a)
		if err != nil {
			return nil, nil, err
		}
		cmps, ops = append(cmps, r.unchanged(a)), append(ops, op)
	}
	return cmps, ops, nil
}

// attemptSlot returns the slot of an attempt. Subjects that share a slot can be found with the secret alone.
func attemptSlot(secret []byte, a Attempt) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(a.Subject))
	slot := binary.BigEndian.Uint64(mac.Sum(nil)) % MaxAttemptSlots
	return entryNumber(uint64(a.Kind)<<slotBits | slot)
}

// AttemptFamiliar counts a login of an account from an address that the account remembers. The count is exact, so no other account, address or client changes
// it. Errors: PausedError, those of Account.
func (r *Registry) AttemptFamiliar(ctx context.Context, accountID, address string) error {
	return crowded(r.familiar(ctx, accountID, address, func(a *Account, t *tries) error {
		now := r.now()
		for _, err := range []error{a.Passed.pause(&attemptLimits[familiarLoginsPassed], now), t.pause(&attemptLimits[familiarLogins], now)} {
			if err != nil {
				return err
			}
		}
		t.add(&attemptLimits[familiarLogins], now)
		return nil
	}))
}

// ForgiveFamiliar takes an attempt of AttemptFamiliar back. Errors: those of Account, ErrConflict.
func (r *Registry) ForgiveFamiliar(ctx context.Context, accountID, address string) error {
	return r.familiar(ctx, accountID, address, func(_ *Account, t *tries) error {
		t.forgive()
		return nil
	})
}

func (r *Registry) familiar(ctx context.Context, accountID, address string, change func(*Account, *tries) error) error {
	return retry(ctx, func() (bool, error) {
		a, err := r.Account(ctx, accountID)
		if err != nil {
			return false, err
		}
		i := slices.IndexFunc(a.Addresses, func(f Familiar) bool { return f.Address == address })
		if i < 0 {
			return false, ErrConflict // the account has just forgotten it
		}
		if err := change(a, &a.Addresses[i].tries); err != nil {
			return false, err
		}
		op, err := r.put(a)
		if err != nil {
			return false, err
		}
		return r.commit(ctx, "count login", []clientv3.Cmp{r.unchanged(a)}, []clientv3.Op{op})
	})
}
