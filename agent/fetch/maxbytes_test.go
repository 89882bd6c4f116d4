package fetch

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFetcher_MaxBytesOfTheServer asks for more bytes than an answer may have. The answer has all batches at the bound, and one batch less below it. The
// first batch is whole below any bound.
func TestFetcher_MaxBytesOfTheServer(t *testing.T) {
	var defaults Config
	defaults.ApplyDefaults()
	require.Equal(t, 55<<20, defaults.MaxBytes)
	one := len(batch(1000, 1))
	for bound, batches := range map[int]int{3 * one: 3, 3*one - 1: 2, one - 1: 1} {
		bubble(t, Config{MaxBytes: bound}, func(e *env) {
			t := e.t
			all := e.produce(t, tp(0), batch(1000, 1), batch(1000, 2), batch(1000, 3))
			resp := e.fetch(t, request(part(0, 0)))
			require.Equal(t, all[:batches*one], records(&resp.Results[0]), "bound of %d bytes", bound)
		})
	}
}
