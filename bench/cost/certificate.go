package cost

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certificate names the files of a self-signed certificate; the zero value means no TLS.
type certificate struct {
	CertFile string `json:"cert_file"`
	KeyFile  string `json:"key_file"`
}

// newCertificate makes one for loopback, good for a day, in dir.
func newCertificate(dir string) (certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return certificate{}, fmt.Errorf("generate key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "freshet bench"},
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return certificate{}, fmt.Errorf("create certificate: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return certificate{}, fmt.Errorf("encode key: %w", err)
	}
	c := certificate{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	if err := writePEM(c.CertFile, "CERTIFICATE", cert); err != nil {
		return certificate{}, err
	}
	return c, writePEM(c.KeyFile, "PRIVATE KEY", der)
}

func writePEM(file, kind string, der []byte) error {
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return fmt.Errorf("write certificate: %w", err)
	}
	return nil
}

func (c certificate) enabled() bool { return c.CertFile != "" }

func (c certificate) serverTLS() (*tls.Config, error) {
	if !c.enabled() {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("load certificate: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}
