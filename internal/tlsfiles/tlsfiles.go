// Package tlsfiles makes TLS configurations of PEM files. Certificates are read again when their files change, so
// that renewed ones need no restart; trusted authorities are read once.
package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Files names PEM files. Empty names are absent.
type Files struct {
	CA   string // certificates to trust
	Cert string // own certificate, with intermediate ones after it
	Key  string // its key
}

// recheck is how often a certificate's files are looked at, at most.
const recheck = 10 * time.Second

// Server gives the configuration of a listener: nil if no files are named. CA, if named, is what client certificates
// are required to be signed by.
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

// Client gives the configuration of a connection to a server: nil if no files are named and TLS is not forced. CA
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
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read trusted certificates: %w", err)
	}
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("no certificate in %s", file)
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
	loaded, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("read certificate: %w", err)
	}
	c.mu.loaded = &loaded
	return c, nil
}

// current gives the certificate, read anew if its files changed. Files that cannot be read (half replaced, say) leave
// the one there is.
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
	loaded, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		c.log.Warn("changed certificate not taken", zap.String("file", c.cert), zap.Error(err))
		return c.mu.loaded
	}
	c.mu.loaded, c.mu.modified = &loaded, modified
	c.log.Info("certificate read again", zap.String("file", c.cert))
	return c.mu.loaded
}

// modified is when the newer of the files was changed; zero if one is missing.
func (c *certificate) modified() time.Time {
	cert, err := os.Stat(c.cert)
	if err != nil {
		return time.Time{}
	}
	key, err := os.Stat(c.key)
	if err != nil {
		return time.Time{}
	}
	if key.ModTime().After(cert.ModTime()) {
		return key.ModTime()
	}
	return cert.ModTime()
}
