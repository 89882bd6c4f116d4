package registry

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
)

var (
	ada = Attempt{LoginsOfAccount, "ada@example.com"}
	bob = Attempt{LoginsOfAccount, "bob@example.com"}
)

func pauseOf(t *testing.T, err error) time.Duration {
	t.Helper()
	if err == nil {
		return 0
	}
	var paused *PausedError
	require.ErrorAs(t, err, &paused)
	return paused.After
}

// TestAttempt: pauses grow up to MaxPause, hold for all Registries, and end after AttemptsEnd.
func TestAttempt(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	try := func(i int) time.Duration {
		return pauseOf(t, []*Registry{f.Registry, f.second}[i%2].Attempt(ctx, ada))
	}
	for i := range FreeAttempts {
		require.Zero(t, try(i))
	}
	for i := range 13 {
		want := min(time.Second<<i, MaxPause)
		require.Equal(t, want, try(i), "attempt %d beyond the free ones", i)
		f.pass(want - time.Millisecond)
		require.Equal(t, time.Millisecond, try(i))
		f.pass(time.Millisecond)
		require.Zero(t, try(i))
	}
	require.Equal(t, MaxPause, try(0))
	require.Zero(t, pauseOf(t, f.Attempt(ctx, bob)), "another subject")
	f.pass(AttemptsEnd)
	for i := range FreeAttempts {
		require.Zero(t, try(i))
	}
	require.Equal(t, time.Second, try(0))
}

// TestAttempt_Rate: a rate has its attempts in each window, over all Registries.
func TestAttempt_Rate(t *testing.T) {
	f := open(t)
	try := func(i int) time.Duration {
		return pauseOf(t, []*Registry{f.Registry, f.second}[i%2].Attempt(t.Context(), Attempt{Kind: SignUps}))
	}
	for range 3 {
		for i := range MaxSignUps {
			require.Zero(t, try(i))
			f.pass(time.Millisecond)
		}
		require.Equal(t, SignUpsWindow-MaxSignUps*time.Millisecond, try(0))
		f.pass(SignUpsWindow - MaxSignUps*time.Millisecond - time.Millisecond)
		require.Equal(t, time.Millisecond, try(1))
		f.pass(time.Millisecond)
	}
}

// TestAttempt_AllOrNone: an attempt that one of its kinds refuses is not counted in the others, and writes nothing.
func TestAttempt_AllOrNone(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	both := []Attempt{ada, {Kind: LoginsFromNetwork, Subject: "192.0.2.0/24"}}
	for range FreeAttempts {
		require.NoError(t, f.Attempt(ctx, ada))
	}
	f.client.txns.Store(0)
	for range 2 * FreeNetworkAttempts {
		require.Equal(t, time.Second, pauseOf(t, f.Attempt(ctx, both...)))
	}
	require.Zero(t, f.client.txns.Load())
	for range FreeNetworkAttempts {
		require.NoError(t, f.Attempt(ctx, both[1]))
	}
	require.Equal(t, time.Second, pauseOf(t, f.Attempt(ctx, both[1])))
	require.Equal(t, time.Second, pauseOf(t, f.Attempt(ctx, bob, both[1])))
	for range FreeAttempts {
		require.NoError(t, f.Attempt(ctx, bob))
	}
}

// TestForgive: successful attempts cost nothing, and failed ones stay counted.
func TestForgive(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	require.NoError(t, f.Forgive(ctx, ada))
	for range FreeAttempts - 1 {
		require.NoError(t, f.Attempt(ctx, ada))
	}
	for range 2 * FreeAttempts {
		require.NoError(t, f.Attempt(ctx, ada))
		require.NoError(t, f.Forgive(ctx, ada))
	}
	require.NoError(t, f.Attempt(ctx, ada))
	require.Equal(t, time.Second, pauseOf(t, f.Attempt(ctx, ada)))
}

// TestAttempt_AtOnce: attempts at once pass no more often than attempts one after the other.
func TestAttempt_AtOnce(t *testing.T) {
	f := open(t)
	passed := f.race(t, 4*FreeAttempts, func(err error) bool { return pauseOf(t, err) > 0 }, func(r *Registry, _ int) error {
		return r.Attempt(t.Context(), ada, Attempt{Kind: Logins})
	})
	require.LessOrEqual(t, passed, FreeAttempts)
	require.Positive(t, passed)
}

// TestAttempt_Slots: any number of subjects of a kind share MaxAttemptSlots records, and kinds share none. Which subjects share one depends on the secret.
func TestAttempt_Slots(t *testing.T) {
	slots := map[string]bool{}
	secret, other := make([]byte, attemptSecretBytes), []byte("another secret with as many bytes")
	same := 0
	for i := range 20 * MaxAttemptSlots {
		a := Attempt{LoginsOfAccount, fmt.Sprint("subject ", i)}
		slot := attemptSlot(secret, a)
		slots[slot] = true
		if slot == attemptSlot(other, a) {
			same++
		}
		if i%20 == 0 {
			require.False(t, slots[attemptSlot(secret, Attempt{LoginsFromHost, a.Subject})])
		}
	}
	require.Len(t, slots, MaxAttemptSlots)
	require.Less(t, same, 100, "20 are expected")
	f := open(t)
	for i := range 10 {
		require.NoError(t, f.Attempt(t.Context(), Attempt{LoginsOfAccount, fmt.Sprint("subject ", i)}))
	}
	require.LessOrEqual(t, len(f.keys(t, "/attempts/")), 10)
	require.NotContains(t, fmt.Sprint(f.keys(t, "/attempts/")), "subject")
}

// TestAttempt_Bytes: the largest record of attempts has the documented size.
func TestAttempt_Bytes(t *testing.T) {
	r := New(Config{Prefix: "/p"})
	op, err := r.put(&attempts{Slot: entryNumber(7), tries: tries{1 << 30, start.Add(time.Millisecond)}})
	require.NoError(t, err)
	require.Less(t, len(op.KeyBytes())+len(op.ValueBytes()), 120)
}

// TestAttemptSecret: all Registries store one secret. A malformed one is replaced.
func TestAttemptSecret(t *testing.T) {
	f := open(t)
	require.Equal(t, 16, f.race(t, 16, is(nil), func(r *Registry, _ int) error {
		_, err := New(r.cfg).attemptSecret(t.Context())
		return err
	}))
	first, err := f.attemptSecret(t.Context())
	require.NoError(t, err)
	require.Len(t, first, 32)
	second, err := f.second.attemptSecret(t.Context())
	require.NoError(t, err)
	require.Equal(t, first, second)
	stored, err := f.client.Get(t.Context(), "/p/+registry/attempts-secret", clientv3.WithSerializable())
	require.NoError(t, err)
	require.Equal(t, first, stored.Kvs[0].Value)
	require.EqualValues(t, 1, stored.Kvs[0].Version)

	_, err = f.client.Put(t.Context(), "/p/+registry/attempts-secret", "short")
	require.NoError(t, err)
	third, err := New(f.cfg).attemptSecret(t.Context())
	require.NoError(t, err)
	require.Len(t, third, 32)
	require.NotEqual(t, first, third)
}

// TestAttemptFamiliar: the pauses of an account's own address follow from attempts from that address alone.
func TestAttemptFamiliar(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	a := f.account(t, "ada")
	for _, address := range []string{"192.0.2.1", "192.0.2.2"} {
		_, err := f.StartSession(ctx, a.ID, hash(address), address, start.Add(time.Hour))
		require.NoError(t, err)
	}
	for range FreeAttempts {
		require.NoError(t, f.Attempt(ctx, ada, Attempt{LoginsFromHost, "192.0.2.1"}, Attempt{Kind: Logins}))
	}
	require.Equal(t, time.Second, pauseOf(t, f.Attempt(ctx, ada)))
	passed := f.race(t, 4*FreeAttempts, func(err error) bool { return pauseOf(t, err) > 0 }, func(r *Registry, _ int) error {
		return r.AttemptFamiliar(ctx, a.ID, "192.0.2.1")
	})
	require.LessOrEqual(t, passed, FreeAttempts)
	for range FreeAttempts - passed {
		require.NoError(t, f.AttemptFamiliar(ctx, a.ID, "192.0.2.1"))
	}
	require.Equal(t, time.Second, pauseOf(t, f.second.AttemptFamiliar(ctx, a.ID, "192.0.2.1")))
	require.NoError(t, f.AttemptFamiliar(ctx, a.ID, "192.0.2.2"))
	require.NoError(t, f.ForgiveFamiliar(ctx, a.ID, "192.0.2.1"))
	require.NoError(t, f.AttemptFamiliar(ctx, a.ID, "192.0.2.1"))
	require.Equal(t, time.Second, pauseOf(t, f.AttemptFamiliar(ctx, a.ID, "192.0.2.1")))
	require.Positive(t, pauseOf(t, f.AttemptFamiliar(ctx, a.ID, "192.0.2.3")), "forgotten meanwhile")
	require.ErrorIs(t, f.AttemptFamiliar(ctx, "AAAAAAAAAAAAAAAAAAAAAA", "192.0.2.1"), ErrNotFound)
}

// TestAttemptFamiliar_Passed: an account logs in MaxAccountLogins times in a window, from all its addresses together.
func TestAttemptFamiliar_Passed(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	a := f.account(t, "ada")
	for i := range MaxAccountLogins {
		_, err := f.StartSession(ctx, a.ID, hash(fmt.Sprint(i)), "192.0.2.1", start.Add(24*time.Hour))
		require.NoError(t, err)
		f.pass(time.Second)
		if i < MaxAccountLogins-1 {
			require.NoError(t, f.AttemptFamiliar(ctx, a.ID, "192.0.2.1"))
			require.NoError(t, f.ForgiveFamiliar(ctx, a.ID, "192.0.2.1"))
		}
	}
	require.Equal(t, AccountLoginsWindow-MaxAccountLogins*time.Second, pauseOf(t, f.AttemptFamiliar(ctx, a.ID, "192.0.2.1")))
	f.pass(AccountLoginsWindow)
	require.NoError(t, f.AttemptFamiliar(ctx, a.ID, "192.0.2.1"))
}
