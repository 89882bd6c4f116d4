// Package tlsfiles makes TLS configurations of PEM files, or of PEM text. A certificate is read again when its files change, so
// renewing it needs no restart. Trusted authorities, and text, are read once.
package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Files names PEM files. A name with a line "-----BEGIN ..." is PEM text instead of a file. Empty names are absent.
type Files struct {
	CA   string // certificates to trust
	Cert string // own certificate, with intermediate ones after it
	Key  string // its key
}

// recheck is the least time between two looks at a certificate's files.
const recheck = 10 * time.Second

// read returns the PEM text of a file, or of a name that is such text.
func read(name string) ([]byte, error) {
	if isText(name) {
		return []byte(name), nil
	}
	text, err := os.ReadFile(name)
	var fault *fs.PathError
	if errors.As(err, &fault) && !isPath(name) {
		return nil, fmt.Errorf("a value is neither PEM text nor the path of a file: %w", fault.Err)
	}
	return text, err
}

// isPath reports whether a name looks like a path. Damaged PEM text does not, so errors do not show it.
func isPath(name string) bool {
	return len(name) <= 1024 && !strings.Contains(name, "\n") && (strings.HasPrefix(name, "/") || strings.Contains(name, "."))
}

// isText reports whether a name is PEM text. Text may be a key, so neither errors nor log lines have it.
func isText(name string) bool { return strings.Contains(name, "-----BEGIN ") }

// shown returns a name for errors and log lines.
func shown(name string) string {
	if isPath(name) && !isText(name) {
		return name
	}
	return "the PEM text"
}

// Server returns the configuration of a listener, nil if no files are named. CA, if named, must have signed the clients' certificates.
func (f Files) Server(log *zap.Logger) (*tls.Config, error) {
	if f == (Files{}) {
		return nil, nil //nolint:nilnil // no TLS is a value here, not a failure
	}
	if f.Cert == "" || f.Key == "" {
		return nil, errors.New("TLS needs a certificate and its key")
	}
	own, err := newCertificate(f.Cert, f.Key, log)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return own.current(), nil },
	}
	if f.CA != "" {
		if config.ClientCAs, err = pool(f.CA); err != nil {
			return nil, err
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return config, nil
}

// Client returns the configuration of a connection to a server, nil if no files are named and TLS is not forced. CA
// replaces the system's authorities.
func (f Files) Client(force bool, log *zap.Logger) (*tls.Config, error) {
	if f == (Files{}) && !force {
		return nil, nil //nolint:nilnil // no TLS is a value here, not a failure
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		var err error
		if config.RootCAs, err = pool(f.CA); err != nil {
			return nil, err
		}
	}
	if f.Cert == "" && f.Key == "" {
		return config, nil
	}
	if f.Cert == "" || f.Key == "" {
		return nil, errors.New("a certificate and its key are wanted together")
	}
	own, err := newCertificate(f.Cert, f.Key, log)
	if err != nil {
		return nil, err
	}
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own.current(), nil }
	return config, nil
}

func pool(file string) (*x509.CertPool, error) {
	pem, err := read(file)
	if err != nil {
		return nil, fmt.Errorf("read trusted certificates: %w", err)
	}
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("no certificate in %s", shown(file))
	}
	return p, nil
}

// certificate is a pair of files as last read.
type certificate struct {
	cert, key string
	log       *zap.Logger

	mu struct {
		sync.Mutex
		loaded   *tls.Certificate
		modified time.Time // of the newer file when it was read
		checked  time.Time
	}
}

func newCertificate(cert, key string, log *zap.Logger) (*certificate, error) {
	c := &certificate{cert: cert, key: key, log: log}
	c.mu.checked, c.mu.modified = time.Now(), c.modified()
	loaded, err := c.load()
	if err != nil {
		return nil, fmt.Errorf("read certificate: %w", err)
	}
	c.mu.loaded = loaded
	return c, nil
}

func (c *certificate) load() (*tls.Certificate, error) {
	cert, err := read(c.cert)
	if err != nil {
		return nil, err
	}
	key, err := read(c.key)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	return &pair, err
}

// current returns the certificate, read again if its files changed. If the files cannot be read (half replaced, say), current returns
// the certificate as last read.
func (c *certificate) current() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Sub(c.mu.checked) < recheck {
		return c.mu.loaded
	}
	c.mu.checked = now
	modified := c.modified()
	if modified.Equal(c.mu.modified) {
		return c.mu.loaded
	}
	loaded, err := c.load()
	if err != nil {
		c.log.Warn("changed certificate not taken", zap.String("file", shown(c.cert)), zap.Error(err))
		return c.mu.loaded
	}
	c.mu.loaded, c.mu.modified = loaded, modified
	c.log.Info("certificate read again", zap.String("file", shown(c.cert)))
	return c.mu.loaded
}

// modified returns the time of change of the newer file, zero if one is missing. Text does not change.
func (c *certificate) modified() (newest time.Time) {
	for _, name := range []string{c.cert, c.key} {
		if isText(name) {
			continue
		}
		info, err := os.Stat(name)
		if err != nil {
			return time.Time{}
		}
		if info.ModTime().After(newest) {
			newest = info.ModTime()
		}
	}
	return newest
}
