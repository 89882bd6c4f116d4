package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/freshet-io/freshet/internal/spoken"
)

// Bounds of finding out which protocol an address speaks.
const (
	foreignAfter = time.Second     // without an answer to a Kafka request
	foreignLimit = 3 * time.Second // of one address
)

// foreignError is returned if addresses answer, but in another protocol than the one that their flag wants.
type foreignError struct {
	what []string // one clause for each address
	want string   // the address that the flag takes
}

func (e *foreignError) Error() string {
	return strings.Join(e.what, "; ") + "; name " + e.want
}

// The addresses that flags take.
const (
	wantKafka    = "the Kafka address of an agent (its --kafka-listen, port 9092 by default)"
	wantOperator = "the HTTP address of a control plane (its --http-listen, port 8090 by default)"
	wantAgents   = "the address of a control plane for agents (its --grpc-listen, port 7050 by default)"
	wantHealth   = "an HTTP address (the --http-listen of an agent or a control plane, ports 8080 and 8090 by default)"
	wantEtcd     = "a client address of etcd (port 2379 by default)"
)

// foreigners returns a foreignError if every address speaks another protocol than Kafka's.
func (c ClientConfig) foreigners(ctx context.Context, secured bool) error {
	var found []string
	for _, address := range c.Bootstrap {
		what := foreign(ctx, address, secured)
		if what == "" {
			return nil
		}
		found = append(found, what)
	}
	return &foreignError{found, wantKafka}
}

// foreign returns a clause about an address that does not speak Kafka's protocol, or "".
func foreign(ctx context.Context, address string, secured bool) string {
	ctx, cancel := context.WithTimeout(ctx, foreignLimit)
	defer cancel()
	what := spokenBy(firstBytes(ctx, address))
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

// CheckControlPlane returns an error if no address of an agent's --control-plane can be one, because each speaks another protocol.
func CheckControlPlane(ctx context.Context, addresses []string) error {
	return checkGRPC(ctx, "--control-plane", addresses, wantAgents)
}

// CheckEtcd is CheckControlPlane for the --etcd of a control plane.
func CheckEtcd(ctx context.Context, addresses []string) error {
	return checkGRPC(ctx, "--etcd", addresses, wantEtcd)
}

func checkGRPC(ctx context.Context, flag string, addresses []string, want string) error {
	var found []string
	for _, address := range addresses {
		what := notGRPC(ctx, address)
		if what == "" {
			return nil
		}
		found = append(found, fmt.Sprintf("%s %s speaks %s, not gRPC", flag, address, what))
	}
	return &foreignError{found, want}
}

// notGRPC returns the protocol of an address that certainly does not speak gRPC, or "". A port with TLS may speak any protocol, and
// one that answers HTTP/1 may speak HTTP/2 too, as etcd's and a proxy's do.
func notGRPC(ctx context.Context, address string) string {
	ctx, cancel := context.WithTimeout(ctx, foreignLimit)
	defer cancel()
	switch what := spokenBy(firstBytes(ctx, address)); {
	case what == spokenHTTP && spoken.At(ctx, address, nil) == spoken.Plain && !spoken.HTTP2(ctx, address, nil):
		return what
	case what == spokenSSH:
		return what
	case what == "" && answersKafka(ctx, address):
		return spokenKafka
	}
	return ""
}

// foreignHTTP returns a foreignError if the host of a URL speaks another protocol than HTTP. setting names the URL's place.
func foreignHTTP(ctx context.Context, setting, target, want string) error {
	u, err := url.Parse(target)
	if err != nil || u.Port() == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, foreignLimit)
	defer cancel()
	what := spokenBy(firstBytes(ctx, u.Host))
	if what == "" && answersKafka(ctx, u.Host) {
		what = spokenKafka
	}
	if what == "" || what == spokenHTTP || what == spokenTLS {
		return nil
	}
	return &foreignError{[]string{fmt.Sprintf("%s %s speaks %s, not HTTP", setting, u.Host, what)}, want}
}

// firstBytes asks for a page and returns the beginning of the answer. An agent takes the request for a Kafka request of a gigabyte,
// and hangs up.
func firstBytes(ctx context.Context, address string) []byte {
	return exchange(ctx, address, fmt.Appendf(nil, "GET / HTTP/1.0\r\nHost: %s\r\n\r\n", address), 9)
}

// apiVersions is an ApiVersions request, version 0, with correlationID and a null client ID.
const (
	correlationID = "frsh"
	apiVersions   = "\x00\x00\x00\x0a" + "\x00\x12\x00\x00" + correlationID + "\xff\xff"
)

// answersKafka reports whether an address answers ApiVersions, which Kafka's brokers answer before authentication.
func answersKafka(ctx context.Context, address string) bool {
	answer := exchange(ctx, address, []byte(apiVersions), 8) // the size and the correlation ID
	return len(answer) == 8 && string(answer[4:]) == correlationID
}

// exchange sends a request and returns the first bytes of the answer, up to size.
func exchange(ctx context.Context, address string, request []byte, size int) []byte {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_, _ = conn.Write(request) // the server may have answered and hung up before
	answer := make([]byte, size)
	n, _ := io.ReadFull(conn, answer) // a shorter answer is one too
	return answer[:n]
}

// shakesHands reports whether an address speaks TLS. It trusts any certificate.
func shakesHands(ctx context.Context, address string) bool {
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // no data is sent or trusted
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

// Protocols.
const (
	spokenTLS   = "TLS"
	spokenHTTP  = "HTTP"
	spokenSSH   = "SSH"
	spokenHTTP2 = "gRPC or other HTTP/2"
	spokenKafka = "Kafka's protocol"
)

// spokenBy returns the protocol of an answer's first bytes, or "" if it is unknown.
func spokenBy(answer []byte) string {
	switch {
	case bytes.HasPrefix(answer, []byte("HTTP/")):
		return spokenHTTP
	case bytes.HasPrefix(answer, []byte("SSH-")):
		return spokenSSH
	case len(answer) >= 3 && (answer[0] == 0x15 || answer[0] == 0x16) && answer[1] == 3: // an alert or a handshake (RFC 8446, 5.1)
		return spokenTLS
	case len(answer) == 9 && answer[3] == 4 && bytes.Equal(answer[4:], make([]byte, 5)): // SETTINGS (RFC 9113, 3.4 and 6.5)
		return spokenHTTP2
	}
	return ""
}
