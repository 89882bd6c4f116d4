package javaconfig

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"regexp"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// security maps TLS with PEM files, and SASL with PLAIN and SCRAM.
func security(r *reader) {
	protocol := r.choice("security.protocol", "plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
	encryption, authentication := secrets(r)
	if protocol == "ssl" || protocol == "sasl_ssl" {
		if config := encryption(); config != nil {
			r.use(kgo.DialTLSConfig(config))
		}
	}
	if protocol == "sasl_plaintext" || protocol == "sasl_ssl" {
		authentication()
	}
}

// secrets marks all properties as known, also those that the protocol does not need.
func secrets(r *reader) (encryption func() *tls.Config, authentication func()) {
	for _, name := range []string{
		"ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.certificates", "ssl.keystore.type",
		"ssl.keystore.location", "ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.key.password",
		"ssl.endpoint.identification.algorithm", "sasl.mechanism", "sasl.jaas.config",
	} {
		r.asked[name] = true
	}
	return func() *tls.Config { return tlsConfig(r) }, func() { saslMechanism(r) }
}

func tlsConfig(r *reader) *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if algorithm, given := r.props["ssl.endpoint.identification.algorithm"]; given && algorithm == "" {
		skipNames(config)
	}
	if text := pemText(r, "ssl.truststore", "ssl.truststore.certificates"); text != nil {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			r.fault("ssl.truststore.location", "no certificate in PEM is there")
		}
	}
	if r.has("ssl.key.password") {
		r.secret("ssl.key.password", "keys with a password are not read; store the key without")
		return config
	}
	chain := pemText(r, "ssl.keystore", "ssl.keystore.certificate.chain")
	if chain == nil {
		return config
	}
	key := chain // of a file, which has both
	if r.has("ssl.keystore.key") {
		key = []byte(r.text("ssl.keystore.key"))
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		r.fault("ssl.keystore.location", "certificate and key in PEM: %w", err)
	}
	config.Certificates = []tls.Certificate{pair}
	return config
}

// pemText reads a store that is given in place or as a file.
func pemText(r *reader, store, inPlace string) []byte {
	if r.has(inPlace) {
		return []byte(r.text(inPlace))
	}
	location := store + ".location"
	if !r.has(location) {
		return nil
	}
	if kind := r.text(store + ".type"); kind != "PEM" {
		r.fault(store+".type", "only stores of type PEM are read")
		return nil
	}
	text, err := os.ReadFile(r.text(location))
	if err != nil {
		r.fault(location, "%w", err)
	}
	return text
}

// skipNames verifies the chain of the server's certificate but not its names, as Java does with an empty algorithm.
func skipNames(config *tls.Config) {
	config.InsecureSkipVerify = true //nolint:gosec // VerifyConnection does it, but for the names
	config.VerifyConnection = func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) == 0 {
			return errors.New("the server has no certificate")
		}
		options := x509.VerifyOptions{Roots: config.RootCAs, Intermediates: x509.NewCertPool()}
		for _, c := range state.PeerCertificates[1:] {
			options.Intermediates.AddCert(c)
		}
		_, err := state.PeerCertificates[0].Verify(options)
		return err
	}
}

// credential finds username="..." and password="..." in a JAAS entry.
var credential = regexp.MustCompile(`\b(username|password)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s;"']+))`)

func saslMechanism(r *reader) {
	given := map[string]string{}
	for _, m := range credential.FindAllStringSubmatch(r.text("sasl.jaas.config"), -1) {
		given[m[1]] = m[2] + m[3] + m[4]
	}
	if given["username"] == "" {
		r.secret("sasl.jaas.config", `username="..." and password="..." are needed`)
		return
	}
	user, password := given["username"], given["password"]
	switch mechanism := r.text("sasl.mechanism"); mechanism {
	case "PLAIN":
		r.use(kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()))
	case "SCRAM-SHA-256":
		r.use(kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		r.use(kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism()))
	default:
		r.fault("sasl.mechanism", "allowed are PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512")
	}
}
