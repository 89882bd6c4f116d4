package metadata

import (
	"testing"

	"github.com/freshet-io/freshet/metadata/id"
)

func TestForgetBundles_GoldenAndRoundTrip(t *testing.T) {
	bundle := func(session, n uint32) id.Bundle {
		return id.Submission{Session: id.Session(session), N: n}.Bundle()
	}
	for want, c := range map[string]*ForgetBundles{
		"28 01 00":                                 {},
		"28 0c 03 8580808010 01 8580808010":        {Bundles: []id.Bundle{bundle(1, 5), bundle(1, 6), bundle(2, 11)}},
		"28 10 02 8580808010 fcffffffffffffffff01": {Bundles: []id.Bundle{bundle(1, 5), bundle(1, 1)}}, // not in order: only longer
	} {
		requireCommandBytes(t, c, want)
	}
}
