package stock

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSent_Faults: each fault that a group could show is found.
func TestSent_Faults(t *testing.T) {
	s := &Sent{counts: map[stream]int{{"w", 0}: 10, {"w", 1}: 5}}
	whole := []Run{{"w", 0, 0, 10}, {"w", 1, 0, 5}}
	for name, c := range map[string]struct {
		runs   []Run
		again  bool
		faulty bool
	}{
		"whole":                {whole, false, false},
		"handed over":          {[]Run{{"w", 0, 4, 10}, {"w", 1, 0, 5}, {"w", 0, 0, 4}}, false, false},
		"not to the end":       {[]Run{{"w", 0, 0, 9}, {"w", 1, 0, 5}}, true, true},
		"a partition not read": {whole[:1], true, true},
		"a hole":               {[]Run{{"w", 0, 0, 4}, {"w", 0, 5, 10}, {"w", 1, 0, 5}}, true, true},
		"twice":                {[]Run{{"w", 0, 0, 6}, {"w", 0, 4, 10}, {"w", 1, 0, 5}}, false, true},
		"twice as allowed":     {[]Run{{"w", 0, 0, 6}, {"w", 0, 4, 10}, {"w", 1, 0, 5}}, true, false},
		"not from the start":   {[]Run{{"w", 0, 1, 10}, {"w", 1, 0, 5}}, true, true},
	} {
		require.Equal(t, c.faulty, len(s.Faults(slices.Clone(c.runs), c.again)) > 0, name)
	}
}
