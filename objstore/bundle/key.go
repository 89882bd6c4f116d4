package bundle

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/freshet-io/freshet/metadata/id"
)

// Key is the object key of a bundle: the virtual cluster's prefix (empty, or ending in a slash), four hex digits that
// hash the session, then session and n as eight hex digits each, as in "vc/9f3a/0000002a/00000001". The hash spreads
// sessions over the store's key space, which S3 partitions by prefix; fixed widths make listing follow n.
func Key(prefix string, b id.Bundle) string {
	name := b.Submission()
	return fmt.Sprintf("%s%08x", SessionPrefix(prefix, name.Session), name.N)
}

// SessionPrefix is the prefix of all of a session's bundles and of nothing else.
func SessionPrefix(prefix string, session id.Session) string {
	return fmt.Sprintf("%s%04x/%08x/", prefix, sessionHash(session), uint32(session))
}

// ParseKey gives the bundle that Key made the key from. It returns ErrMalformed for any other key.
func ParseKey(prefix, key string) (id.Bundle, error) {
	rest, ok := strings.CutPrefix(key, prefix)
	var session, n uint32
	if ok && len(rest) == 4+1+8+1+8 {
		if _, err := fmt.Sscanf(rest[5:], "%08x/%08x", &session, &n); err == nil {
			b := id.Submission{Session: id.Session(session), N: n}.Bundle()
			if Key(prefix, b) == key {
				return b, nil
			}
		}
	}
	return 0, fmt.Errorf("%w: %q is not the key of a bundle under %q", ErrMalformed, key, prefix)
}

func sessionHash(session id.Session) uint16 {
	return uint16(xxhash.Sum64(binary.BigEndian.AppendUint32(nil, uint32(session))))
}
