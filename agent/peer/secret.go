package peer

import (
	"crypto/sha256"
	"crypto/subtle"
	"sync/atomic"
	"time"
)

// SecretGrace is the time for which the previous secret still opens an agent after a change. Agents learn of a change at different times.
const SecretGrace = time.Minute

// Secret is the secret by which the agents of a virtual cluster know each other. The zero value has none: the agent neither asks nor
// answers. Methods are safe for concurrent use, but only one goroutine may call Set.
type Secret struct{ known atomic.Pointer[secrets] }

type secrets struct {
	current, previous string
	until             time.Time // end of the previous one
}

// Set sets the secret. The former one stays valid for SecretGrace. "" means that the owner tells none, and ends both.
func (s *Secret) Set(secret string) {
	next := &secrets{current: secret}
	if before := s.known.Load(); before != nil && secret != "" {
		if before.current == secret {
			return
		}
		next.previous, next.until = before.current, time.Now().Add(SecretGrace)
	}
	s.known.Store(next)
}

// valid returns the secrets that open an agent, the current one first.
func (s *Secret) valid() []string {
	known := s.known.Load()
	switch {
	case known == nil || known.current == "":
		return nil
	case known.previous == "" || !time.Now().Before(known.until):
		return []string{known.current}
	}
	return []string{known.current, known.previous}
}

// opens reports whether a shown secret is valid.
func (s *Secret) opens(shown string) bool {
	sum, opens := sha256.Sum256([]byte(shown)), 0
	for _, secret := range s.valid() {
		valid := sha256.Sum256([]byte(secret))
		opens |= subtle.ConstantTimeCompare(sum[:], valid[:])
	}
	return opens == 1
}
