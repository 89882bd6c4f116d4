package fetch

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadAhead_PlacesEndWithTheirReader(t *testing.T) {
	r := newReadAhead(64 << 20)
	p := part(0, 0)
	require.True(t, r.note(1, &p, place{offset: 5}))
	next := part(0, 5)
	require.False(t, r.note(1, &next, place{offset: 9}))
	next.Offset = 9
	at, depth := r.place(1, &next)
	require.Equal(t, place{offset: 9}, at)
	require.EqualValues(t, firstAhead, depth)
	r.leave(1)
	at, depth = r.place(1, &next)
	require.Zero(t, at)
	require.Zero(t, depth)
	require.Zero(t, r.mu.order.Len())
	require.Empty(t, r.mu.readers)
}

// At the bound the least recently used place is forgotten, and the others are kept.
func TestReadAhead_ForgetsInOrderOfUse(t *testing.T) {
	r := newReadAhead(64 << 20)
	r.places = 100
	for n := range int32(100) {
		p := part(n, 0)
		r.note(uint64(n), &p, place{offset: 1})
	}
	for n := range int32(50) { // the readers 0 to 49 go on
		p := part(n, 1)
		r.note(uint64(n), &p, place{offset: 2})
	}
	for n := range int32(50) {
		p := part(n, 0)
		require.True(t, r.note(uint64(1000+n), &p, place{offset: 1}))
		require.Equal(t, 100, r.mu.order.Len())
	}
	for n := range int32(50) {
		p := part(n, 2)
		at, depth := r.place(uint64(n), &p)
		require.Equal(t, place{offset: 2}, at, "reader %d", n)
		require.EqualValues(t, firstAhead, depth)
		p = part(n+50, 1)
		at, _ = r.place(uint64(n+50), &p)
		require.Zero(t, at, "reader %d", n+50)
		require.False(t, r.note(uint64(n+50), &p, place{offset: 2}), "the end of the connection is awaited already")
	}
}
