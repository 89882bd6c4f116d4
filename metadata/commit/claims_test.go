package commit

import (
	"math/rand/v2"
	"testing"

	"github.com/freshet-io/freshet/internal/hostile"
)

func TestClaimsAllocateNothing(t *testing.T) {
	p := encode(randomCommit(rand.New(rand.NewPCG(3, 3))))
	hostile.Claims(t, p[:min(len(p), 600)], 64<<10, func(p []byte) { _, _ = Parse(p) })
	var sections []SectionResult
	for i := range 20 {
		sections = append(sections, SectionResult{LogStart: int64(i), Spans: []Span{{Batches: 3, Base: 4}, {Batches: 1, Outcome: Gap}}})
	}
	result := AppendResult(nil, &Result{Sections: sections})
	hostile.Claims(t, result, 64<<10, func(p []byte) { _, _ = ParseResult(p) })
}
