// Package mail sends the mails of the HTTP API for tenants by SMTP.
//
// A Queue holds mails in memory. It repeats a mail that fails, with growing pauses, and sends the others meanwhile. A replica that ends loses the mails
// that it has not sent, so their users ask again. Mails have no text from their users: otherwise, a stranger could send any text to any address.
package mail

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"time"

	"github.com/wneessen/go-mail"
)

// Message is a mail in plain text.
type Message struct{ To, Subject, Text string }

// Server is an SMTP server with the sender of mails.
type Server struct {
	host, user, password string
	port                 int
	implicit             bool // TLS from the first byte; otherwise STARTTLS
	from                 string
	trust                *x509.CertPool // nil means the system's certificates
}

// sendTimeout bounds the time of an attempt to send a mail.
const sendTimeout = 30 * time.Second

// NewServer returns the server of a URL: smtps://user:password@host:465, or smtp:// for one with STARTTLS at port 587. TLS is required. from is the sender's
// address, with or without a name.
func NewServer(location, from string) (*Server, error) {
	u, err := url.Parse(location)
	if err != nil { // its text has the password
		return nil, errors.New("malformed URL")
	}
	s := &Server{host: u.Hostname(), user: u.User.Username(), from: from, implicit: u.Scheme == "smtps", port: 587}
	s.password, _ = u.User.Password()
	if s.implicit {
		s.port = 465
	}
	if u.Port() != "" {
		if s.port, err = strconv.Atoi(u.Port()); err != nil {
			return nil, fmt.Errorf("port %q is no number", u.Port())
		}
	}
	if u.Scheme != "smtps" && u.Scheme != "smtp" || s.host == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || (s.user == "") != (s.password == "") {
		return nil, errors.New("want smtps://user:password@host:465, or smtp://user:password@host:587 for STARTTLS")
	}
	if err := mail.NewMsg().From(from); err != nil {
		return nil, fmt.Errorf("sender of mails (--mail-from): %w", err)
	}
	if _, err := s.client(&dialer{}); err != nil {
		return nil, err
	}
	return s, nil
}

// dialer opens one connection for STARTTLS and keeps it, because the client does not close a connection whose STARTTLS fails.
type dialer struct{ conn net.Conn }

func (d *dialer) dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	d.conn, err = new(net.Dialer).DialContext(ctx, network, address)
	return d.conn, err
}

func (d *dialer) close() {
	if d.conn != nil {
		_ = d.conn.Close() // closed already after a success
	}
}

func (s *Server) client(d *dialer) (*mail.Client, error) {
	options := []mail.Option{
		mail.WithPort(s.port), mail.WithTimeout(sendTimeout), mail.WithTLSPolicy(mail.TLSMandatory), mail.WithTLSConfig(s.tlsConfig()),
	}
	if s.implicit {
		options = append(options, mail.WithSSL())
	} else {
		options = append(options, mail.WithDialContextFunc(d.dial))
	}
	if s.user != "" {
		options = append(options, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover), mail.WithUsername(s.user), mail.WithPassword(s.password))
	}
	return mail.NewClient(s.host, options...)
}

// tlsConfig returns the TLS configuration of a connection.
func (s *Server) tlsConfig() *tls.Config {
	return &tls.Config{ServerName: s.host, RootCAs: s.trust, MinVersion: tls.VersionTLS12}
}

// errRefused is returned for a mail that the server refuses for good.
var errRefused = errors.New("the server refuses the mail")

// send sends a mail. Errors: errRefused, temporary ones.
func (s *Server) send(ctx context.Context, m Message) error {
	msg := mail.NewMsg()
	if err := errors.Join(msg.From(s.from), msg.To(m.To)); err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	msg.Subject(m.Subject)
	msg.SetDate()
	msg.SetMessageID()
	msg.SetBodyString(mail.TypeTextPlain, m.Text)
	var d dialer
	defer d.close()
	c, err := s.client(&d)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	err = c.DialAndSendWithContext(ctx, msg)
	var refused *mail.SendError
	if errors.As(err, &refused) && refused.Reason == mail.ErrSMTPRcptTo && !refused.IsTemp() { // other refusals can be the server's fault
		err = fmt.Errorf("%w: %w", errRefused, err)
	}
	var unknown x509.UnknownAuthorityError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unknown):
		return fmt.Errorf("mail server %s: %w; add its authority to those of the system, or set SSL_CERT_FILE", s.address(), err)
	}
	return fmt.Errorf("mail server %s: %w", s.address(), err)
}

// address returns host and port of the server.
func (s *Server) address() string { return net.JoinHostPort(s.host, strconv.Itoa(s.port)) }
