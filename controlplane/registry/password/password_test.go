package password

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHasher(t *testing.T) {
	h := New()
	first, err := h.Hash("correct horse")
	require.NoError(t, err)
	require.Regexp(t, `^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$`, first)
	second, err := h.Hash("correct horse")
	require.NoError(t, err)
	require.NotEqual(t, first, second, "the salt is new")
	for _, c := range []struct {
		name, hash, password string
		want                 bool
	}{
		{"right", first, "correct horse", true},
		{"wrong", first, "correct horsf", false},
		{"empty password", first, "", false},
		{"no hash", "", "correct horse", false},
		{"other parameters", strings.Replace(first, "t=2", "t=1", 1), "correct horse", false},
		{"cut", first[:len(first)-1], "correct horse", false},
		{"no base64", prefix + "!$!", "correct horse", false},
		{"empty parts", prefix + "$", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			ok, err := h.Verify(c.hash, c.password)
			require.NoError(t, err)
			require.Equal(t, c.want, ok)
		})
	}
}

// TestHasher_AtOnce has MaxHashes hashes at once, and one more.
func TestHasher_AtOnce(t *testing.T) {
	h := New()
	for range MaxHashes - 1 {
		h.slots <- struct{}{}
	}
	hash, err := h.Hash("last slot")
	require.NoError(t, err)
	h.slots <- struct{}{}
	_, err = h.Hash("beyond")
	require.ErrorIs(t, err, ErrBusy)
	ok, err := h.Verify(hash, "last slot")
	require.ErrorIs(t, err, ErrBusy)
	require.False(t, ok)
	for range MaxHashes {
		<-h.slots
	}
	var all sync.WaitGroup
	for range MaxHashes {
		all.Go(func() {
			_, _ = h.Verify(hash, "last slot")
		})
	}
	all.Wait()
	require.Empty(t, h.slots, "each slot is given back")
}
