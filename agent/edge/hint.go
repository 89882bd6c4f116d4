package edge

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"strings"

	"github.com/freshet-io/freshet/kafkaproto"
)

// firstBytesHint guesses what a client speaks whose first bytes are no Kafka frame, for the log.
func firstBytesHint(p kafkaproto.Prefix, overTLS bool) string {
	size := binary.BigEndian.AppendUint32(nil, uint32(p.Size))
	switch {
	case size[0] == 0x16 && size[1] == 0x03 && !overTLS:
		return "the client speaks TLS, this listener does not"
	case strings.Contains("GET POSTHEADPUT OPTIDELEPATCCONNPRI ", string(size)):
		return "the client speaks HTTP"
	default:
		return ""
	}
}

// handshakeHint guesses why a TLS handshake failed, for the log.
func handshakeHint(err error) string {
	var record tls.RecordHeaderError
	if errors.As(err, &record) {
		return "the client does not speak TLS, this listener does"
	}
	return ""
}
