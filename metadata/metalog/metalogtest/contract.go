// Package metalogtest is the one contract test of metadata logs: the promises of metalog.Log to owners and
// followers, whatever store it is over.
package metalogtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/metalog"
)

// Store is the store under test.
type Store struct {
	// Leases has the leases of the store.
	Leases metalog.LeaseStore
	// Open connects one more replica to the log of a virtual cluster, which is empty at first.
	Open func(t *testing.T, cluster string, cfg metalog.Config) metalog.Log
}

// open connects one more replica, with a lease of its own, to the log under test.
type open func(t *testing.T, cfg metalog.Config) metalog.Log

// lease runs one more lease until the test ends.
func (s *Store) lease(t *testing.T) *metalog.Lease {
	t.Helper()
	l, err := metalog.NewLease(s.Leases, metalog.Config{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-stopped)
	})
	return l
}

// Run runs the contract. fresh returns a new, empty store each time it is called.
func Run(t *testing.T, fresh func(t *testing.T) Store) {
	t.Helper()
	shared := []struct {
		name string
		test func(t *testing.T, s Store)
	}{
		{"a resigned tenure leaves the other tenures under its lease", testResignedOfTwo},
		{"a lost lease ends all tenures under it", testLostLease},
		{"a replica that ends revokes its lease", testRevokedLease},
	}
	for _, tt := range shared {
		t.Run(tt.name, func(t *testing.T) { tt.test(t, fresh(t)) })
	}
	tests := []struct {
		name string
		test func(t *testing.T, open open)
	}{
		{"an empty log has no owner, no entries and no snapshots", testEmpty},
		{"one replica owns at a time, and tenures rise", testOwnership},
		{"of many claimants one wins", testClaimants},
		{"what was appended is read by all, in order", testAppend},
		{"a large payload spans entries and is put together", testSpan},
		{"a span cut short by a takeover is void", testVoidSpan},
		{"an owner whose key was taken over changes nothing", testFenced},
		{"a resigned owner changes nothing", testResigned},
		{"trimmed entries are told from those to come", testTrim},
		{"snapshot pointers are the owner's to set", testSnapshots},
		{"appends only at the tail", testAppendIndex},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := fresh(t)
			tt.test(t, func(t *testing.T, cfg metalog.Config) metalog.Log {
				t.Helper()
				cfg.Lease = s.lease(t)
				return s.Open(t, "one", cfg)
			})
		})
	}
}

func acquire(t *testing.T, l metalog.Log, replica string) metalog.Tenure {
	t.Helper()
	tenure, err := l.Acquire(t.Context(), metalog.Candidate{Replica: replica, Address: replica + ":7050"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = tenure.Resign(context.Background()) })
	return tenure
}

func appendAll(t *testing.T, tenure metalog.Tenure, from uint64, payloads ...string) uint64 {
	t.Helper()
	for _, p := range payloads {
		last, err := tenure.Append(t.Context(), from, []byte(p))
		require.NoError(t, err)
		from = last + 1
	}
	return from
}

func payloads(entries []metalog.Entry) []string {
	var all []string
	for _, e := range entries {
		all = append(all, string(e.Payload))
	}
	return all
}

func testEmpty(t *testing.T, open open) {
	l := open(t, metalog.Config{})
	st, err := l.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, metalog.Status{}, st)
	entries, tail, err := l.Read(t.Context(), 1, 1<<20)
	require.NoError(t, err)
	require.Empty(t, entries)
	require.Zero(t, tail)
	refs, err := l.Snapshots(t.Context())
	require.NoError(t, err)
	require.Empty(t, refs)
}

func testOwnership(t *testing.T, open open) {
	a, b := open(t, metalog.Config{}), open(t, metalog.Config{})
	first := acquire(t, a, "a")
	require.True(t, first.Valid())
	require.Zero(t, first.Tail())
	st, err := b.Status(t.Context())
	require.NoError(t, err)
	require.True(t, st.Owned)
	require.Equal(t, metalog.Owner{Replica: "a", Address: "a:7050", Tenure: first.ID()}, st.Owner)

	_, err = b.Acquire(t.Context(), metalog.Candidate{Replica: "b"})
	require.ErrorIs(t, err, metalog.ErrHeld)
	appendAll(t, first, 1, "one", "two")
	require.NoError(t, first.Resign(t.Context()))
	require.False(t, first.Valid())

	second := acquire(t, b, "b")
	require.Greater(t, second.ID(), first.ID())
	require.EqualValues(t, 2, second.Tail())
	appendAll(t, second, 3, "three")
}

func testClaimants(t *testing.T, open open) {
	var wg sync.WaitGroup
	won := make(chan metalog.Tenure, 5)
	for i := range cap(won) {
		l := open(t, metalog.Config{})
		wg.Go(func() {
			tenure, err := l.Acquire(t.Context(), metalog.Candidate{Replica: fmt.Sprint(i)})
			if err == nil {
				won <- tenure
			} else if !errors.Is(err, metalog.ErrHeld) {
				t.Errorf("acquire: %v", err)
			}
		})
	}
	wg.Wait()
	require.Len(t, won, 1)
	require.NoError(t, (<-won).Resign(t.Context()))
}

func testAppend(t *testing.T, open open) {
	a, b := open(t, metalog.Config{}), open(t, metalog.Config{})
	appendAll(t, acquire(t, a, "a"), 1, "one", "", "three")
	for _, l := range []metalog.Log{a, b} {
		entries, tail, err := l.Read(t.Context(), 1, 1<<20)
		require.NoError(t, err)
		require.EqualValues(t, 3, tail)
		require.Equal(t, []string{"one", "", "three"}, payloads(entries))
	}
	entries, tail, err := b.Read(t.Context(), 2, 0)
	require.NoError(t, err)
	require.EqualValues(t, 3, tail)
	require.Equal(t, []string{""}, payloads(entries), "at least one entry, whatever the limit")
	require.EqualValues(t, 2, entries[0].Index)

	entries, _, err = b.Read(t.Context(), 4, 1<<20)
	require.NoError(t, err)
	require.Empty(t, entries)
	_, _, err = b.Read(t.Context(), 5, 1<<20)
	require.ErrorIs(t, err, metalog.ErrAhead)
}

func readPayloads(t *testing.T, l metalog.Log) map[uint64]string {
	t.Helper()
	all := map[uint64]string{}
	asm := metalog.NewAssembler(0)
	for {
		entries, tail, err := l.Read(t.Context(), asm.Next(), 1<<20)
		require.NoError(t, err)
		for _, e := range entries {
			p, done, err := asm.Add(e)
			require.NoError(t, err)
			if done {
				all[e.Index] = string(p)
			}
		}
		if asm.Next() > tail {
			return all
		}
	}
}

func testSpan(t *testing.T, open open) {
	l := open(t, metalog.Config{EntryBytes: 10})
	tenure := acquire(t, l, "a")
	large := string(bytes.Repeat([]byte("0123456789x"), 100))
	appendAll(t, tenure, 1, "small", large)
	last, err := tenure.Append(t.Context(), 112, []byte("0123456789"))
	require.NoError(t, err)
	require.EqualValues(t, 112, last)
	require.Equal(t, map[uint64]string{1: "small", 111: large, 112: "0123456789"}, readPayloads(t, l))
	require.EqualValues(t, 5+1100+10, tenure.Bytes())
}

// testVoidSpan ends an owner between the parts of one payload: the next one's entries void what it left.
func testVoidSpan(t *testing.T, open open) {
	a, b := open(t, metalog.Config{EntryBytes: 4}), open(t, metalog.Config{EntryBytes: 4})
	first := acquire(t, a, "a")
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error)
	go func() {
		_, err := first.Append(ctx, 1, bytes.Repeat([]byte("void"), 200_000))
		stopped <- err
	}()
	for st := (metalog.Status{}); st.Tail < 2; {
		var err error
		st, err = b.Status(t.Context())
		require.NoError(t, err)
	}
	cancel()
	require.Error(t, <-stopped)
	_, err := first.Append(t.Context(), 3, []byte("more"))
	require.Error(t, err, "the index is unresolved")
	require.NoError(t, first.Resign(t.Context()))

	second := acquire(t, b, "b")
	last, err := second.Append(t.Context(), second.Tail()+1, []byte("whole"))
	require.NoError(t, err)
	require.Equal(t, map[uint64]string{last: "whole"}, readPayloads(t, a))
}

func testFenced(t *testing.T, open open) {
	old, young := open(t, metalog.Config{}), open(t, metalog.Config{})
	first := acquire(t, old, "a")
	appendAll(t, first, 1, "one")
	second, err := young.Acquire(t.Context(), metalog.Candidate{Replica: "a", TakeOver: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, second.Resign(context.Background())) }()
	require.EqualValues(t, 1, second.Tail())

	_, err = first.Append(t.Context(), 2, []byte("stale"))
	require.ErrorIs(t, err, metalog.ErrFenced)
	require.ErrorIs(t, first.SetSnapshots(t.Context(), []metalog.SnapshotRef{{Index: 1}}), metalog.ErrFenced)
	require.ErrorIs(t, first.Trim(t.Context(), 1), metalog.ErrFenced)
	<-first.Lost()
	require.False(t, first.Valid())
	_ = first.Resign(t.Context())

	require.True(t, second.Valid())
	appendAll(t, second, 2, "two")
	require.Equal(t, map[uint64]string{1: "one", 2: "two"}, readPayloads(t, old))
	refs, err := old.Snapshots(t.Context())
	require.NoError(t, err)
	require.Empty(t, refs)
}

func testResigned(t *testing.T, open open) {
	l := open(t, metalog.Config{})
	tenure := acquire(t, l, "a")
	require.NoError(t, tenure.Resign(t.Context()))
	<-tenure.Lost()
	_, err := tenure.Append(t.Context(), 1, []byte("late"))
	require.ErrorIs(t, err, metalog.ErrFenced)
	st, err := l.Status(t.Context())
	require.NoError(t, err)
	require.False(t, st.Owned)
	require.Zero(t, st.Tail)
}

func testTrim(t *testing.T, open open) {
	l := open(t, metalog.Config{})
	tenure := acquire(t, l, "a")
	appendAll(t, tenure, 1, "one", "two", "three", "four")
	require.EqualValues(t, 15, tenure.Bytes())
	require.NoError(t, tenure.Trim(t.Context(), 2))
	require.EqualValues(t, 9, tenure.Bytes())
	require.NoError(t, tenure.Trim(t.Context(), 1), "trimming again is harmless")

	_, tail, err := l.Read(t.Context(), 2, 1<<20)
	require.ErrorIs(t, err, metalog.ErrTrimmed)
	require.EqualValues(t, 4, tail)
	entries, _, err := l.Read(t.Context(), 3, 1<<20)
	require.NoError(t, err)
	require.Equal(t, []string{"three", "four"}, payloads(entries))
	require.NoError(t, tenure.Resign(t.Context()))

	next := acquire(t, l, "b")
	require.EqualValues(t, 9, next.Bytes(), "a new owner knows what is left")
	require.NoError(t, next.Trim(t.Context(), 4))
	require.Zero(t, next.Bytes())
	_, _, err = l.Read(t.Context(), 4, 1<<20)
	require.ErrorIs(t, err, metalog.ErrTrimmed)
	appendAll(t, next, 5, "five")
	require.EqualValues(t, 4, next.Bytes())
}

func testSnapshots(t *testing.T, open open) {
	a, b := open(t, metalog.Config{}), open(t, metalog.Config{})
	tenure := acquire(t, a, "a")
	refs := []metalog.SnapshotRef{{Index: 9, Name: "nine", Bytes: 99, CRC: 0xffffffff}, {Index: 5, Name: "five"}}
	require.NoError(t, tenure.SetSnapshots(t.Context(), refs))
	got, err := b.Snapshots(t.Context())
	require.NoError(t, err)
	require.Equal(t, refs, got)
}

func testAppendIndex(t *testing.T, open open) {
	l := open(t, metalog.Config{})
	tenure := acquire(t, l, "a")
	appendAll(t, tenure, 1, "one")
	for _, index := range []uint64{0, 1, 3} {
		_, err := tenure.Append(t.Context(), index, []byte("elsewhere"))
		require.Error(t, err)
	}
	appendAll(t, tenure, 2, "two")
}

// two returns tenures of two logs under one lease.
func two(t *testing.T, s Store) (lease *metalog.Lease, one, other metalog.Tenure) {
	t.Helper()
	lease = s.lease(t)
	one = acquire(t, s.Open(t, "one", metalog.Config{Lease: lease}), "a")
	other = acquire(t, s.Open(t, "other", metalog.Config{Lease: lease}), "a")
	return lease, one, other
}

func testResignedOfTwo(t *testing.T, s Store) {
	_, one, other := two(t, s)
	require.NoError(t, one.Resign(t.Context()))
	require.False(t, one.Valid())
	next := acquire(t, s.Open(t, "one", metalog.Config{Lease: s.lease(t)}), "b")
	appendAll(t, next, 1, "next")

	require.True(t, other.Valid())
	appendAll(t, other, 1, "goes on")
	_, err := s.Open(t, "other", metalog.Config{Lease: s.lease(t)}).Acquire(t.Context(), metalog.Candidate{Replica: "b"})
	require.ErrorIs(t, err, metalog.ErrHeld)

	require.NoError(t, one.Resign(t.Context()), "resigning again is harmless")
	require.True(t, next.Valid())
	appendAll(t, next, 2, "still")
}

func testLostLease(t *testing.T, s Store) {
	lease, one, other := two(t, s)
	granted, err := lease.Granted(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Leases.Revoke(t.Context(), granted.ID()))
	<-one.Lost()
	<-other.Lost()
	require.False(t, one.Valid())
	require.False(t, other.Valid())

	l := s.Open(t, "one", metalog.Config{Lease: lease})
	again, err := l.Acquire(t.Context(), metalog.Candidate{Replica: "a"})
	if errors.Is(err, metalog.ErrLeaseGone) { // the tenures ended with their keys, before a renewal
		again, err = l.Acquire(t.Context(), metalog.Candidate{Replica: "a"})
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = again.Resign(context.Background()) })
	now, err := lease.Granted(t.Context())
	require.NoError(t, err)
	require.NotEqual(t, granted.ID(), now.ID())
	require.True(t, again.Valid())
	require.False(t, one.Valid(), "a later grant revives no tenure")
	_, err = one.Append(t.Context(), 1, []byte("stale"))
	require.ErrorIs(t, err, metalog.ErrFenced)
	require.NoError(t, one.Resign(t.Context()))
	require.True(t, again.Valid(), "it removes its own key alone")
	appendAll(t, again, 1, "fresh")
}

func testRevokedLease(t *testing.T, s Store) {
	lease, err := metalog.NewLease(s.Leases, metalog.Config{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- lease.Run(ctx) }()
	tenure, err := s.Open(t, "one", metalog.Config{Lease: lease}).Acquire(t.Context(), metalog.Candidate{Replica: "a"})
	require.NoError(t, err)
	cancel()
	require.NoError(t, <-stopped)
	require.False(t, tenure.Valid())
	l := s.Open(t, "one", metalog.Config{Lease: s.lease(t)})
	st, err := l.Status(t.Context())
	require.NoError(t, err)
	require.False(t, st.Owned)
	require.NoError(t, tenure.Resign(t.Context()))
}
