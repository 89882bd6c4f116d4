package bundle_test

import (
	"hash/crc32"
	"testing"

	"github.com/freshet-io/freshet/internal/bytetable"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
)

// The tables of the package comment describe a bundle of an agent and one of a job. Batches are left out.
func TestTables_Golden(t *testing.T) {
	l := bytetable.New(t)
	agent, sections := small(t)
	list(l, agent, len(sections), 0)
	list(l, small2(t), 3, 3)
	l.Golden("testdata/bundles.golden")
}

// list adds all parts of a bundle but its batches.
func list(l *bytetable.Listing, data []byte, sections, seekEntries int) {
	trailer := len(data) - 40
	seek := trailer - 24*seekEntries
	footer := seek - 32*sections
	crc := func(from, to int) uint64 { return uint64(crc32.Checksum(data[from:to], objstore.Castagnoli)) }
	l.Values = map[string]uint64{
		"CRC-32C of bytes 0-19":      crc(0, 20),
		"position of the footer":     uint64(footer),
		"number of sections":         uint64(sections),
		"number of seek entries":     uint64(seekEntries),
		"CRC-32C of all batch bytes": crc(bundle.HeaderSize, footer),
		"CRC-32C of the footer":      crc(footer, seek),
		"CRC-32C of the seek table":  crc(seek, trailer),
		"CRC-32C of bytes 0-27":      crc(trailer, trailer+28),
	}
	l.Bytes("bundle.go", "Header", data[:bundle.HeaderSize])
	for at := footer; at < seek; at += 32 {
		l.Bytes("bundle.go", "Footer entry", data[at:at+32])
	}
	for at := seek; at < trailer; at += 24 {
		l.Bytes("bundle.go", "Seek entry", data[at:at+24])
	}
	l.Bytes("bundle.go", "Trailer", data[trailer:])
}
