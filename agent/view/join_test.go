package view

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/extent"
)

func planned(end int64, borders ...int64) Plan {
	p := Plan{Marks: Watermarks{HighWatermark: end, LastStable: end}, End: end}
	for i := 1; i < len(borders); i++ {
		p.Extents = append(p.Extents, extent.Extent{Base: borders[i-1], Last: borders[i] - 1})
	}
	return p
}

func bases(p *Plan) (out []int64) {
	for i := range p.Extents {
		out = append(out, p.Extents[i].Base)
	}
	return out
}

func TestPlan_Join(t *testing.T) {
	for _, c := range []struct {
		name         string
		first, after Plan
		offset       int64
		joined       []int64 // nil: they do not fit
	}{
		{"adjoining", planned(100, 0, 10, 20), planned(100, 20, 30, 40), 0, []int64{0, 10, 20, 30}},
		{"the last extent again, its end now readable", planned(15, 0, 10, 20), planned(100, 10, 20, 30), 0, []int64{0, 10, 20}},
		{"the only extent again", planned(5, 0, 10), planned(100, 0, 10, 20), 3, []int64{0, 10}},
		{"merged from the reader's offset on", planned(100, 5, 10, 20), planned(100, 0, 40), 7, []int64{0}},
		{"merged across a border", planned(100, 0, 10, 20), planned(100, 15, 40), 0, nil},
		{"merged before the last extent", planned(100, 0, 10, 20), planned(100, 10, 40), 0, []int64{0, 10}},
		{"a gap", planned(100, 0, 10), planned(100, 20, 30), 0, nil},
		{"nothing new", planned(100, 0, 10, 20), planned(20, 10, 20), 0, nil},
		{"nothing there", planned(100, 0, 10), planned(10), 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			first, before := c.first, bases(&c.first)
			require.Equal(t, c.joined != nil, first.Join(&c.after, c.offset))
			if c.joined == nil {
				require.Equal(t, before, bases(&first))
				return
			}
			require.Equal(t, c.joined, bases(&first))
			require.Equal(t, c.after.End, first.End)
			require.Equal(t, max(c.first.Marks.HighWatermark, c.after.Marks.HighWatermark), first.Marks.HighWatermark)
		})
	}
}

// A transaction that reaches into both plans is named once, in the order of markers.
func TestPlan_JoinAborted(t *testing.T) {
	a, b, c := extent.Aborted{ProducerID: 1, First: 0, Last: 5}, extent.Aborted{ProducerID: 2, First: 3, Last: 25},
		extent.Aborted{ProducerID: 1, First: 21, Last: 30}
	first, after := planned(20, 0, 20), planned(40, 20, 40)
	first.Aborted, after.Aborted = []extent.Aborted{a, b}, []extent.Aborted{b, c}
	require.True(t, first.Join(&after, 0))
	require.Equal(t, []extent.Aborted{a, b, c}, first.Aborted)
}
