// Package accesskey makes and reads the keys and API tokens of a control plane. They are text:
//
//	fsk_<cluster id>_<secret>_<checksum>   agent key, 77 characters
//	fsr_<cluster id>_<secret>_<checksum>   read-only key, 77 characters
//	fso_<secret>_<checksum>                operator key, 54 characters
//	fst_<secret>_<checksum>                API token, 54 characters
//
//	part         characters  meaning
//	cluster id           22  of the virtual cluster: id.NewCluster. It can hold underscores, so keys are parsed by length
//	secret               43  256 random bits in base62
//	checksum              6  CRC-32 (IEEE) of the characters before its underscore, in base62
//
// Base62 has the digits 0-9, a-z and A-Z in this order, the most significant one first, with zeros in front. Prefix and checksum let
// scanners of source code recognize a key, and let a program refuse a mistyped key by itself.
//
// A control plane keeps and looks up only the SHA-256 of a key. 256 random bits need no slow hash.
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

// Prefixes of keys, by kind.
const (
	AgentPrefix    = "fsk_"
	ReadOnlyPrefix = "fsr_"
	OperatorPrefix = "fso_"
	TokenPrefix    = "fst_"
)

// Lengths of the parts of a key, in characters.
const (
	prefixLength   = 4
	clusterLength  = 22
	secretLength   = 43
	checksumLength = 6
)

// shownLength is the number of characters of a malformed agent key or read-only key in error messages. The secret begins behind them. For operator
// keys and API tokens, error messages show only the prefix.
const shownLength = 12

var (
	// ErrMalformed is returned for a string that begins with the prefix of a kind but is no key.
	ErrMalformed = errors.New("is no key")
	// ErrOtherKind is returned for a key of another kind.
	ErrOtherKind = errors.New("is a key of another kind")
)

// hasCluster reports whether the keys with a prefix hold a cluster ID.
func hasCluster(prefix string) bool { return prefix == AgentPrefix || prefix == ReadOnlyPrefix }

// NewToken returns a new API token.
func NewToken() string { return sealed(TokenPrefix) }

// ValidToken reports whether a text has the form of an API token, with the right checksum.
func ValidToken(token string) bool { return valid(TokenPrefix, token) }

// ValidOperatorKey reports whether a text has the form of an operator key with the prefix, and the right checksum.
func ValidOperatorKey(key string) bool { return valid(OperatorPrefix, key) }

func valid(prefix, key string) bool {
	_, err := ClusterOf(prefix, key)
	return err == nil && strings.HasPrefix(key, prefix)
}

// New returns a new key. clusterID is the cluster that it opens, and "" with OperatorPrefix.
func New(prefix, clusterID string) (string, error) {
	body := prefix
	if hasCluster(prefix) {
		if !id.ValidCluster(clusterID) {
			return "", fmt.Errorf("%q is no cluster id: write the %d characters that `freshet cluster list` prints", clusterID, clusterLength)
		}
		body += clusterID + "_"
	}
	return sealed(body), nil
}

// sealed returns a key that begins with a text, followed by a new secret and the checksum.
func sealed(body string) string {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails
	body += base62(new(big.Int).SetBytes(secret[:]), secretLength)
	return body + "_" + checksum(body)
}

// ClusterOf returns the cluster id in a key of the kind with a prefix. It returns "" for operator keys and API tokens, and for a key without any
// kind's prefix, which can be any string. Errors name the beginning: ErrOtherKind, and ErrMalformed for a wrong length or checksum, or no cluster id.
func ClusterOf(prefix, key string) (string, error) {
	wrong := func(err error) (string, error) {
		shown := shownLength
		if !hasCluster(key[:min(prefixLength, len(key))]) {
			shown = prefixLength
		}
		return "", fmt.Errorf("%s... %w", key[:min(shown, len(key))], err)
	}
	malformed := func(why string) (string, error) {
		return wrong(fmt.Errorf("%w: %s: copy the whole key, as it was shown when it was created", ErrMalformed, why))
	}
	kind := key[:min(prefixLength, len(key))]
	switch kind {
	case AgentPrefix, ReadOnlyPrefix, OperatorPrefix, TokenPrefix:
	default:
		return "", nil
	}
	length, clusterID := prefixLength+secretLength+1+checksumLength, ""
	if hasCluster(kind) {
		length += clusterLength + 1
	}
	if len(key) != length {
		return malformed(fmt.Sprintf("it has %d characters instead of %d", len(key), length))
	}
	body, sum := key[:length-checksumLength-1], key[length-checksumLength:]
	if key[len(body)] != '_' || checksum(body) != sum {
		return malformed("its checksum is wrong")
	}
	if hasCluster(kind) {
		clusterID = key[prefixLength:][:clusterLength]
		if !id.ValidCluster(clusterID) {
			return malformed("it has no cluster id")
		}
	}
	if kind != prefix {
		return wrong(fmt.Errorf("%w: this setting takes keys that begin with %s", ErrOtherKind, prefix))
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

// ParseHash returns the hash of 64 hexadecimal digits. ok reports whether digits are valid.
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
