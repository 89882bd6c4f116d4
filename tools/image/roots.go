package main

import (
	"bytes"
	"encoding/pem"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// roots returns Mozilla's certificate authorities as PEM. They come from a pinned module and not from the machine, so that
// the image is the same everywhere. Authorities that Mozilla trusts under a condition are left out: PEM cannot express it.
func roots() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a Buffer takes everything
		}
	}
	return out.Bytes()
}
