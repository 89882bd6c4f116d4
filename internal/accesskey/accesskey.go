// Package accesskey makes and reads the keys that open a virtual cluster of a control plane.
//
// An agent key is 77 characters:
//
//	fsk_<cluster id>_<secret>_<checksum>
//
//	part         characters  meaning
//	cluster id           22  of the virtual cluster: id.NewCluster. It can hold underscores, so keys are parsed by length
//	secret               43  256 random bits in base62
//	checksum              6  CRC-32 (IEEE) of the characters before its underscore, in base62
//
// Base62 has the digits 0-9, a-z and A-Z in this order, the most significant one first, with zeros in front. Prefix and checksum let
// scanners of source code recognize a key, and let a program refuse a mistyped key by itself.
//
// A control plane stores and compares the SHA-256 of a key alone. 256 random bits need no slow hash.
package accesskey

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"math/big"
	"strings"

	"github.com/freshet-io/freshet/metadata/id"
)

// AgentPrefix is the beginning of agent keys.
const AgentPrefix = "fsk_"

// Lengths of the parts of a key, in characters.
const (
	clusterLength  = 22
	secretLength   = 43
	checksumLength = 6
	agentLength    = len(AgentPrefix) + clusterLength + 1 + secretLength + 1 + checksumLength
)

// shownLength is the number of a malformed key's characters in error messages. They hold no part of the secret.
const shownLength = 12

// ErrMalformed is returned for a string with the prefix of keys that is no key.
var ErrMalformed = errors.New("is no key")

// NewAgent returns a new agent key of a cluster id.
func NewAgent(clusterID string) (string, error) {
	if !id.ValidCluster(clusterID) {
		return "", fmt.Errorf("%q is no cluster id: write the %d characters that `freshet bucket show` prints", clusterID, clusterLength)
	}
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails
	body := AgentPrefix + clusterID + "_" + base62(new(big.Int).SetBytes(secret[:]), secretLength)
	return body + "_" + checksum(body), nil
}

// ClusterOf returns the cluster id in an agent key, and "" for a key without AgentPrefix, which can be any string. It returns
// ErrMalformed, with the first 12 characters, for a key with AgentPrefix that has another length, no cluster id or a wrong checksum.
func ClusterOf(key string) (string, error) {
	if !strings.HasPrefix(key, AgentPrefix) {
		return "", nil
	}
	malformed := func(why string) (string, error) {
		return "", fmt.Errorf("%s... %w: %s: copy the whole key, as `freshet key create` printed it", key[:min(shownLength, len(key))], ErrMalformed, why)
	}
	if len(key) != agentLength {
		return malformed(fmt.Sprintf("it has %d characters instead of %d", len(key), agentLength))
	}
	body, sum := key[:agentLength-checksumLength-1], key[agentLength-checksumLength:]
	if key[len(body)] != '_' || checksum(body) != sum {
		return malformed("its checksum is wrong")
	}
	clusterID := key[len(AgentPrefix):][:clusterLength]
	if !id.ValidCluster(clusterID) {
		return malformed("it has no cluster id")
	}
	return clusterID, nil
}

// Hash is the SHA-256 of a key.
type Hash [sha256.Size]byte

// HashOf returns the hash of a key.
func HashOf(key string) Hash { return sha256.Sum256([]byte(key)) }

// String returns the first 8 hexadecimal digits, by which logs and errors name a key.
func (h Hash) String() string { return hex.EncodeToString(h[:4]) }

// Digits returns all 64 hexadecimal digits.
func (h Hash) Digits() string { return hex.EncodeToString(h[:]) }

// ParseHash returns the hash with 64 hexadecimal digits.
func ParseHash(digits string) (h Hash, ok bool) {
	if len(digits) != hex.EncodedLen(len(h)) {
		return h, false
	}
	_, err := hex.Decode(h[:], []byte(digits))
	return h, err == nil
}

func checksum(body string) string {
	return base62(new(big.Int).SetUint64(uint64(crc32.ChecksumIEEE([]byte(body)))), checksumLength)
}

// base62 returns a number with a fixed number of digits.
func base62(n *big.Int, digits int) string {
	text := n.Text(62)
	return strings.Repeat("0", digits-len(text)) + text
}
