package id

import (
	"crypto/rand"
	"encoding/base64"
)

// clusterBytes is the size of a cluster id before it is encoded.
const clusterBytes = 16

// NewCluster returns a random cluster id, as Kafka makes them: 16 bytes in URL-safe base64 without padding, not beginning with a
// dash (org.apache.kafka.common.Uuid.randomUuid).
func NewCluster() string {
	for {
		var b [clusterBytes]byte
		_, _ = rand.Read(b[:]) // never fails
		if id := base64.RawURLEncoding.EncodeToString(b[:]); id[0] != '-' {
			return id
		}
	}
}

// ValidCluster reports whether id can be one of NewCluster.
func ValidCluster(id string) bool {
	b, err := base64.RawURLEncoding.Strict().DecodeString(id)
	return err == nil && len(b) == clusterBytes && id[0] != '-'
}
