package objstoretest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/fault"
	"github.com/freshet-io/freshet/objstore/mem"
)

// requireWhole checks that a delete failed as a whole, with an error that is no DeleteError.
func requireWhole(t *testing.T, err, want error) {
	t.Helper()
	require.ErrorIs(t, err, want)
	var some *objstore.DeleteError
	require.NotErrorAs(t, err, &some)
}

// Refusal checks Delete of several keys on a store that refuses to delete one of them.
func Refusal(t *testing.T, b objstore.Bucket, refused string) {
	t.Helper()
	before, after := refused+"-before", refused+"-zafter"
	mustPut(t, b, before, []byte("x"))
	mustPut(t, b, after, []byte("x"))
	for _, keys := range [][]string{{before, refused, "missing", after}, {refused}} {
		var some *objstore.DeleteError
		require.ErrorAs(t, b.Delete(t.Context(), keys), &some)
		require.Len(t, some.Failed, 1)
		require.Error(t, some.Failed[refused])
	}
	for _, key := range []string{before, after} {
		_, err := b.Head(t.Context(), key)
		require.ErrorIs(t, err, objstore.ErrNotFound, "one refused key holds up none of the others")
	}
}

// Refusing returns a bucket in memory that refuses to delete the key. Tests pass a wrapper around it to Refusal.
func Refusing(key string) objstore.Bucket {
	b := fault.New(mem.New(), 1)
	b.MustAdd("delete key=" + key + " refuse")
	return b
}
