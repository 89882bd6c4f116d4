package load

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Keys says how messages get their keys. The names are the OpenMessaging Benchmark's.
type Keys string

// The ways. Keys are out of a pool of 10,000 strings, each of 7 random bytes in base64.
const (
	NoKey      Keys = "NO_KEY"          // messages without a key
	RoundRobin Keys = "KEY_ROUND_ROBIN" // one key of the pool after the other
	RandomNano Keys = "RANDOM_NANO"     // the key that the nanoseconds of the clock point at
)

// ParseKeys accepts the names of the ways, and the empty string for NoKey.
func ParseKeys(name string) (Keys, error) {
	if name == "" {
		return NoKey, nil
	}
	switch k := Keys(name); k {
	case NoKey, RoundRobin, RandomNano:
		return k, nil
	}
	return "", fmt.Errorf("unknown key distributor %q, allowed are %s", name, strings.Join(
		[]string{string(NoKey), string(RoundRobin), string(RandomNano)}, ", "))
}

const (
	poolOfKeys = 10_000
	keyBytes   = 7
)

// keyPool is one for the process: what many producers send must fall on the same keys.
var keyPool = sync.OnceValue(func() [][]byte {
	pool := make([][]byte, poolOfKeys)
	random := make([]byte, keyBytes)
	for i := range pool {
		_, _ = rand.Read(random) // never fails
		pool[i] = base64.RawURLEncoding.AppendEncode(nil, random)
	}
	return pool
})

// next gives a function that yields the keys of one sender's messages.
func (k Keys) next() func() []byte {
	switch k {
	case RoundRobin:
		pool, i := keyPool(), -1
		return func() []byte {
			i = (i + 1) % len(pool)
			return pool[i]
		}
	case RandomNano:
		pool, epoch := keyPool(), time.Now()
		return func() []byte { return pool[time.Since(epoch)%poolOfKeys] }
	default:
		return func() []byte { return nil }
	}
}
