package extent

import (
	"math/rand/v2"
	"testing"

	"github.com/freshet-io/freshet/internal/hostile"
)

func TestClaimsAllocateNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var exts []Extent
	for range 20 {
		exts = append(exts, randomExtent(rng, model(exts).end()))
	}
	hostile.Claims(t, AppendList(nil, exts), 64<<10, func(p []byte) { _, _ = ParseList(p) })
}
