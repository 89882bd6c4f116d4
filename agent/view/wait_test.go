package view

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/view/viewtest"
)

func TestPartitions_ProbesForFetchesThatCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := owner()
		p, s := open(t, o, Config{})
		probes := func() (n int) {
			synctest.Wait()
			o.Count(func(o *viewtest.Owner) { n = o.Probes })
			return n
		}
		pass(time.Second)
		require.Zero(t, probes(), "nobody waits")

		came := time.Now()
		p.Parked(1)
		pass(150 * time.Millisecond)
		require.Equal(t, 1, probes())
		require.True(t, p.confirmedAt().After(came))
		pass(900 * time.Millisecond)
		require.Equal(t, 1, probes(), "who waits has a stamp")
		pass(100 * time.Millisecond)
		require.Equal(t, 2, probes(), "once a second all the same")

		for range 5 {
			p.Parked(-1)
			came = time.Now()
			p.Parked(1)
			pass(100 * time.Millisecond)
			probes()
			require.False(t, p.confirmedAt().Before(came))
		}
		require.Equal(t, 7, probes(), "one for each that came")

		s.Cut()
		p.Parked(1)
		came = time.Now()
		pass(5 * time.Second)
		require.True(t, p.confirmedAt().Before(came))
		s.Mend()
		pass(3 * time.Second) // a probe may hang for two
		probes()
		require.True(t, p.confirmedAt().After(came), "one that failed is made again")

		p.Parked(-2)
		before := probes()
		pass(5 * time.Second)
		require.Equal(t, before, probes())
	})
}
