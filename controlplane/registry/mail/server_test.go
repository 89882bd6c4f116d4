package mail

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// smtpServer is a small SMTP server. It takes mails of the user "user" with the password "secret".
type smtpServer struct {
	tls      *tls.Config
	trust    *x509.CertPool
	address  string
	implicit bool
	plain    bool // without TLS

	mu       sync.Mutex
	answer   string // to RCPT TO, "" for success
	received []string
}

func startSMTP(t *testing.T, implicit, plain bool) *smtpServer {
	t.Helper()
	https := httptest.NewTLSServer(nil)
	defer https.Close()
	s := &smtpServer{
		implicit: implicit, plain: plain, trust: x509.NewCertPool(),
		tls: &tls.Config{Certificates: https.TLS.Certificates, MinVersion: tls.VersionTLS12},
	}
	s.trust.AddCert(https.Certificate())
	socket, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.address = socket.Addr().String()
	var open sync.WaitGroup
	t.Cleanup(func() { _ = socket.Close(); open.Wait() })
	open.Go(func() {
		for {
			c, err := socket.Accept()
			if err != nil {
				return
			}
			open.Go(func() { s.serve(c) })
		}
	})
	return s
}

// server returns the Server of a URL of this one.
func (s *smtpServer) server(t *testing.T) *Server {
	t.Helper()
	scheme := "smtp"
	if s.implicit {
		scheme = "smtps"
	}
	server, err := NewServer(scheme+"://user:secret@"+s.address, "Freshet <freshet@example.com>")
	require.NoError(t, err)
	server.trust = s.trust
	return server
}

// refuse sets the answer to RCPT TO.
func (s *smtpServer) refuse(answer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

func (s *smtpServer) mails() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.received...)
}

func (s *smtpServer) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	secure := s.implicit
	if secure {
		c = tls.Server(c, s.tls)
	}
	lines := bufio.NewReader(c)
	say := func(text string) { fmt.Fprint(c, text+"\r\n") }
	say("220 test")
	admitted := false
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimSpace(line)
		switch verb := strings.ToUpper(strings.SplitN(line, " ", 2)[0]); {
		case verb == "EHLO" && !secure && !s.plain:
			say("250-test\r\n250 STARTTLS")
		case verb == "EHLO":
			say("250-test\r\n250 AUTH PLAIN")
		case verb == "STARTTLS":
			say("220 go on")
			c, secure = tls.Server(c, s.tls), true
			lines = bufio.NewReader(c)
		case verb == "AUTH":
			want := base64.StdEncoding.EncodeToString([]byte("\x00user\x00secret"))
			if admitted = secure && strings.HasSuffix(line, " "+want); admitted {
				say("235 welcome")
			} else {
				say("535 refused")
			}
		case verb == "RCPT" && !admitted:
			say("530 authenticate first")
		case verb == "RCPT":
			s.mu.Lock()
			answer := s.answer
			s.mu.Unlock()
			if answer == "" {
				answer = "250 fine"
			}
			say(answer)
		case verb == "DATA":
			say("354 go on")
			var text strings.Builder
			for {
				line, err := lines.ReadString('\n')
				if err != nil {
					return
				}
				if line == ".\r\n" {
					break
				}
				text.WriteString(line)
			}
			s.mu.Lock()
			s.received = append(s.received, text.String())
			s.mu.Unlock()
			say("250 taken")
		case verb == "QUIT":
			say("221 bye")
			return
		default:
			say("250 fine")
		}
	}
}

// TestServer_Send sends by both kinds of TLS.
func TestServer_Send(t *testing.T) {
	for _, implicit := range []bool{true, false} {
		t.Run(fmt.Sprint("implicit ", implicit), func(t *testing.T) {
			s := startSMTP(t, implicit, false)
			server := s.server(t)
			require.NoError(t, server.send(t.Context(), Message{To: "ada@example.com", Subject: "Hello", Text: "one\ntwo\n"}))
			mails := s.mails()
			require.Len(t, mails, 1)
			for _, part := range []string{"From: \"Freshet\" <freshet@example.com>", "To: <ada@example.com>", "Subject: Hello", "Message-ID: ", "one\r\ntwo"} {
				require.Contains(t, mails[0], part)
			}
			s.refuse("550 no such user")
			require.ErrorIs(t, server.send(t.Context(), Message{To: "bob@example.com"}), errRefused)
			s.refuse("451 try later")
			err := server.send(t.Context(), Message{To: "bob@example.com"})
			require.Error(t, err)
			require.NotErrorIs(t, err, errRefused)
			s.refuse("")
			require.ErrorIs(t, server.send(t.Context(), Message{To: "a@example.com, b@example.com"}), errRefused)
			server.password = "wrong"
			err = server.send(t.Context(), Message{To: "ada@example.com"})
			require.Error(t, err)
			require.NotErrorIs(t, err, errRefused, "the fault of the settings")
			server.trust = nil
			err = server.send(t.Context(), Message{To: "ada@example.com"})
			require.ErrorContains(t, err, s.address, "an unknown certificate")
			require.ErrorContains(t, err, "set SSL_CERT_FILE")
			require.Len(t, s.mails(), 1)
		})
	}
}

// TestServer_SendNeedsTLS: without STARTTLS, nothing is sent.
func TestServer_SendNeedsTLS(t *testing.T) {
	s := startSMTP(t, false, true)
	server := s.server(t)
	require.Error(t, server.send(t.Context(), Message{To: "ada@example.com"}))
	require.Empty(t, s.mails())
}

func TestNewServer_Faults(t *testing.T) {
	for _, location := range []string{
		"", "mail.example.com", "https://mail.example.com", "smtp://", "smtp://mail.example.com/path", "smtps://user@mail.example.com", "smtp://mail.example.com:x", "smtp://user:secret@mail%",
	} {
		_, err := NewServer(location, "freshet@example.com")
		require.Error(t, err, location)
		require.NotContains(t, err.Error(), "secret")
	}
	_, err := NewServer("smtp://mail.example.com", "no address")
	require.ErrorContains(t, err, "sender")
	s, err := NewServer("smtp://mail.example.com", "freshet@example.com")
	require.NoError(t, err)
	require.Equal(t, 587, s.port)
	s, err = NewServer("smtps://user:p%40ss@mail.example.com", "freshet@example.com")
	require.NoError(t, err)
	require.Equal(t, []any{465, "p@ss"}, []any{s.port, s.password})
}
