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

// versionHint returns the remedy for a request of an API or version that is not served, for the log.
func versionHint(p kafkaproto.Prefix) string {
	entry, known := kafkaproto.Lookup(p.Key)
	switch {
	case !known:
		return "the API key is unknown to Apache Kafka " + kafkaproto.KafkaVersion
	case entry.Served.Empty():
		return "the API is not served and not advertised: " + entry.Note
	case p.Version < entry.Served.Min:
		return "the client is older than Apache Kafka 2.1, or is set to an older broker (api_version, broker.version.fallback, " +
			"Version): upgrade it or remove that setting (KIP-896)"
	default:
		return "the client sends a version that ApiVersions does not advertise: let it ask for versions (api.version.request)"
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
