// Package password hashes passwords of accounts with argon2id, in the text form of its reference implementation:
//
//	$argon2id$v=19$m=19456,t=2,p=1$<salt>$<hash>
//
// Salt and hash are base64 without padding. A hash costs 19 MiB, so a Hasher runs MaxHashes at once.
package password

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"strings"

	"golang.org/x/crypto/argon2"
)

// MaxHashes bounds the hashes that a Hasher computes at once.
const MaxHashes = 4

// Parameters of argon2id, of the OWASP recommendation with the least memory per pass.
const (
	prefix     = "$argon2id$v=19$m=19456,t=2,p=1$"
	passes     = 2
	memoryKiB  = 19456
	threads    = 1
	saltLength = 16
	hashLength = 32
)

// ErrBusy is returned while MaxHashes hashes are being computed.
var ErrBusy = errors.New("too many passwords are being checked at once")

// Hasher hashes and verifies passwords. It is safe for concurrent use.
type Hasher struct{ slots chan struct{} }

// New returns a Hasher.
func New() *Hasher { return &Hasher{slots: make(chan struct{}, MaxHashes)} }

// Hash returns the hash of a password with a new salt. Error: ErrBusy.
func (h *Hasher) Hash(password string) (string, error) {
	var salt [saltLength]byte
	_, _ = rand.Read(salt[:]) // never fails
	key, err := h.key(password, salt[:])
	if err != nil {
		return "", err
	}
	return prefix + base64.RawStdEncoding.EncodeToString(salt[:]) + "$" + base64.RawStdEncoding.EncodeToString(key), nil
}

// Verify reports whether a password has a hash. A hash that is malformed or "" has no password, and takes the same time. Error: ErrBusy.
func (h *Hasher) Verify(hash, password string) (bool, error) {
	salt, want := parse(hash)
	key, err := h.key(password, salt)
	return err == nil && len(want) == hashLength && subtle.ConstantTimeCompare(key, want) == 1, err
}

func (h *Hasher) key(password string, salt []byte) ([]byte, error) {
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	default:
		return nil, ErrBusy
	}
	return argon2.IDKey([]byte(password), salt, passes, memoryKiB, threads, hashLength), nil
}

// parse returns salt and hash of a text, or nil if it is malformed.
func parse(text string) (salt, hash []byte) {
	rest, ok := strings.CutPrefix(text, prefix)
	if !ok {
		return nil, nil
	}
	first, second, _ := strings.Cut(rest, "$")
	salt, err := base64.RawStdEncoding.DecodeString(first)
	hash, hashErr := base64.RawStdEncoding.DecodeString(second)
	if err != nil || hashErr != nil {
		return nil, nil
	}
	return salt, hash
}
