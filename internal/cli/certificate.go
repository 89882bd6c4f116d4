package cli

import (
	"crypto/x509"
	"errors"
	"fmt"
)

// ExplainCertificate adds the remedy to the error of a connection whose server has a certificate of an unknown authority. Any other error stays.
func ExplainCertificate(err error, remedy string) error {
	var unknown x509.UnknownAuthorityError
	if !errors.As(err, &unknown) {
		return err
	}
	return fmt.Errorf("%w; if it is a private authority, %s", err, remedy)
}

// TrustByFlag is the remedy of commands that have --tls-ca.
const TrustByFlag = "give its certificate with --tls-ca FILE"

// trustBySystem is the remedy of commands that trust the system's authorities alone.
const trustBySystem = "add it to those of the system, or set SSL_CERT_FILE"
