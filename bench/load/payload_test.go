package load

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRandomPayloads(t *testing.T) {
	p, err := RandomPayloads(1000, 0.25, 3)
	require.NoError(t, err)
	require.Len(t, p, 3)
	for _, value := range p {
		require.Len(t, value, 1000)
		require.Equal(t, make([]byte, 750), value[250:])
		require.Less(t, bytes.Count(value[:250], []byte{0}), 20, "random bytes are seldom zero")
	}
	require.NotEqual(t, p[0], p[1])
	for what, err := range map[string]error{
		"size of -1 bytes": second(RandomPayloads(-1, 0, 1)), "ratio 1.1 is not within 0 to 1": second(RandomPayloads(1, 1.1, 1)),
		"pool of 0 payloads": second(RandomPayloads(1, 1, 0)), "is above": second(RandomPayloads(1<<30, 1, 100)),
	} {
		require.ErrorIs(t, err, ErrPayload)
		require.ErrorContains(t, err, what)
	}
}

func second[T any](_ T, err error) error { return err }

func TestFilePayload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "payload")
	require.NoError(t, os.WriteFile(path, []byte("hello"), 0o600))
	p, err := FilePayload(path, 5)
	require.NoError(t, err)
	require.Equal(t, Payloads{[]byte("hello")}, p)
	_, err = FilePayload(path, 6)
	require.ErrorIs(t, err, ErrPayload)
	_, err = FilePayload(path+"x", 5)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestKeys(t *testing.T) {
	require.Nil(t, NoKey.next()())
	next, seen := RoundRobin.next(), map[string]int{}
	for range 2 * poolOfKeys {
		seen[string(next())]++
	}
	for key, n := range seen {
		require.Equal(t, 2, n)
		raw, err := base64.RawURLEncoding.DecodeString(key)
		require.NoError(t, err)
		require.Len(t, raw, 7)
	}
	require.Len(t, seen, poolOfKeys)
	random := RandomNano.next()
	require.Contains(t, seen, string(random()), "the pool is one for all")
	for name, want := range map[string]Keys{"": NoKey, "KEY_ROUND_ROBIN": RoundRobin, "RANDOM_NANO": RandomNano} {
		k, err := ParseKeys(name)
		require.NoError(t, err)
		require.Equal(t, want, k)
	}
	_, err := ParseKeys("no_key")
	require.ErrorContains(t, err, `unknown key distributor "no_key"`)
}
