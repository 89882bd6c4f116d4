package metalog_test

import (
	"testing"

	"github.com/freshet-io/freshet/internal/hostile"
	"github.com/freshet-io/freshet/metadata/metalog"
)

func TestClaimsAllocateNothing(t *testing.T) {
	rec := exampleRecord()
	hostile.Claims(t, metalog.EncodeRecord(&rec), 16<<10, func(p []byte) { _, _ = metalog.DecodeRecord(7, p) })
}
