package boundary

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"regexp"
	"sync"
)

const (
	// tagBytes is the length of a tag. Of 300,000 random tags, none is in other bytes by chance.
	tagBytes = 12
	letters  = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	// filterBits is the logarithm of the number of bits of a filter.
	filterBits = 24
)

type tag [tagBytes]byte

// tags is a set of byte strings to search for.
type tags struct {
	mu     sync.Mutex     // of add
	set    map[tag]string // the part of a record that has the tag
	filter []uint64       // bits of hashes of the first four bytes
}

func newTags() *tags {
	return &tags{set: map[tag]string{}, filter: make([]uint64, 1<<(filterBits-6))}
}

// random returns n random letters.
func random(r *rand.Rand, n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = letters[r.IntN(len(letters))]
	}
	return p
}

// add adds the first and the last tagBytes of p.
func (s *tags) add(what string, p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, part := range [][]byte{p[:tagBytes], p[len(p)-tagBytes:]} {
		s.set[tag(part)] = what
		h := hash(part)
		s.filter[h>>6] |= 1 << (h & 63)
	}
}

func hash(p []byte) uint32 {
	return (uint32(p[0]) | uint32(p[1])<<8 | uint32(p[2])<<16 | uint32(p[3])<<24) * 2654435761 >> (32 - filterBits)
}

// find returns the first tag in p, or "".
func (s *tags) find(p []byte) string {
	for i := 0; i+tagBytes <= len(p); i++ {
		h := hash(p[i:])
		if s.filter[h>>6]&(1<<(h&63)) == 0 {
			continue
		}
		if what, ok := s.set[tag(p[i:i+tagBytes])]; ok {
			return fmt.Sprintf("%s %q at %d", what, p[i:i+tagBytes], i)
		}
	}
	return ""
}

var (
	hexRun    = regexp.MustCompile(`[0-9a-fA-F]{24,}`)
	base64Run = regexp.MustCompile(`[A-Za-z0-9+/_-]{16,}`)
)

// search is find in p and in all hexadecimal and base64 text of p.
func (s *tags) search(p []byte) string {
	if found := s.find(p); found != "" {
		return found
	}
	for _, run := range hexRun.FindAll(p, -1) {
		for skip := range 2 {
			text := run[skip:]
			out := make([]byte, len(text)/2)
			n, _ := hex.Decode(out, text[:len(text)/2*2]) // the expression allows nothing else
			if found := s.find(out[:n]); found != "" {
				return "hexadecimal " + found
			}
		}
	}
	for _, run := range base64Run.FindAll(p, -1) {
		for skip := range 4 {
			for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
				text := run[skip:]
				out := make([]byte, e.DecodedLen(len(text)))
				n, _ := e.Decode(out, text) // up to the first letter of the other encoding
				if found := s.find(out[:n]); found != "" {
					return "base64 " + found
				}
			}
		}
	}
	return ""
}
