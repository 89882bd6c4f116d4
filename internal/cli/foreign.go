package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// Bounds of finding out what else than Kafka's protocol is spoken at an address.
const (
	foreignAfter = time.Second     // without an answer to a Kafka request
	foreignLimit = 3 * time.Second // of one address
)

// foreignError says that addresses answer, but in another protocol.
type foreignError struct{ what []string }

func (e *foreignError) Error() string {
	return strings.Join(e.what, "; ") + "; name the Kafka address of an agent (its --kafka-listen, port 9092 by default)"
}

// foreigners gives a foreignError if all of the addresses turn out to speak something else than Kafka's protocol.
func (c ClientConfig) foreigners(ctx context.Context, secured bool) error {
	var found []string
	for _, address := range c.Bootstrap {
		what := foreign(ctx, address, secured)
		if what == "" {
			return nil
		}
		found = append(found, what)
	}
	return &foreignError{found}
}

// foreign tells what is spoken at an address, "" if it may be Kafka's protocol in the way that was asked for.
func foreign(ctx context.Context, address string, secured bool) string {
	ctx, cancel := context.WithTimeout(ctx, foreignLimit)
	defer cancel()
	what := spoken(firstBytes(ctx, address))
	if what == "" && !secured && shakesHands(ctx, address) {
		what = spokenTLS
	}
	switch {
	case what == "" || what == spokenTLS && secured:
		return ""
	case what == spokenTLS:
		return address + " speaks TLS: give --tls or --tls-ca, if it is Kafka's protocol inside"
	default:
		return fmt.Sprintf("%s speaks %s, not Kafka's protocol", address, what)
	}
}

// firstBytes asks for a page and gives how the answer begins. An agent takes the question for a request of a gigabyte, and
// hangs up.
func firstBytes(ctx context.Context, address string) []byte {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_, _ = fmt.Fprintf(conn, "GET / HTTP/1.0\r\nHost: %s\r\n\r\n", address) // it may have spoken already, and hung up
	answer := make([]byte, 9)
	n, _ := io.ReadFull(conn, answer) // what there is
	return answer[:n]
}

// shakesHands tells whether TLS is spoken at an address, whoever is there.
func shakesHands(ctx context.Context, address string) bool {
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // nothing is said or believed
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

const spokenTLS = "TLS"

// spoken tells the protocol of an answer's first bytes, "" if it is none of those known.
func spoken(answer []byte) string {
	switch {
	case bytes.HasPrefix(answer, []byte("HTTP/")):
		return "HTTP"
	case bytes.HasPrefix(answer, []byte("SSH-")):
		return "SSH"
	case len(answer) >= 3 && (answer[0] == 0x15 || answer[0] == 0x16) && answer[1] == 3: // an alert or a handshake (RFC 8446, 5.1)
		return spokenTLS
	case len(answer) == 9 && answer[3] == 4 && bytes.Equal(answer[4:], make([]byte, 5)): // SETTINGS (RFC 9113, 3.4 and 6.5)
		return "gRPC or other HTTP/2"
	}
	return ""
}
