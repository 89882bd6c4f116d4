package replica

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/objstore/mem"
)

// clockBucket tells the time of the bubble, the store's; or nothing.
type clockBucket struct {
	*mem.Bucket
	down bool
}

func (b *clockBucket) Now(context.Context) (time.Time, error) {
	if b.down {
		return time.Time{}, errors.New("store is down")
	}
	return time.Now(), nil
}

// The machine's clock is set a day ahead under a running replica: command time goes on as before, whether the store can
// be asked or not, and follows the clock again once both agree.
func TestClock_StepsDoNotAgeTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &clockBucket{Bucket: mem.New()}
		c := newClock(b, 30*time.Second, zap.NewNop(), newMetrics(prometheus.NewRegistry()))
		step := time.Duration(0)
		c.wall = func() time.Time { return time.Now().Add(step) }
		c.measure(t.Context())
		require.True(t, c.near())

		step, b.down = 24*time.Hour, true
		time.Sleep(time.Minute)
		c.measure(t.Context())
		require.Zero(t, time.Until(c.now()))

		b.down = false
		c.measure(t.Context())
		require.False(t, c.near())
		require.Zero(t, time.Until(c.now()))

		step = 20 * time.Second
		c.measure(t.Context())
		require.True(t, c.near())
		require.Equal(t, step, time.Until(c.now()))
	})
}
