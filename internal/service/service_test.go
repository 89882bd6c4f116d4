package service_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/internal/service"
)

// recorder notes in which order services ended.
type recorder struct {
	mu    sync.Mutex
	order []string
}

func (r *recorder) service(name string, drain time.Duration) service.Service {
	return service.Service{Name: name, Run: func(ctx context.Context) error {
		<-ctx.Done()
		<-time.After(drain)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.order = append(r.order, name)
		return ctx.Err()
	}}
}

func TestRun_StopsInReverseOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := service.Run(ctx, zap.NewNop(), r.service("store", 0), r.service("session", time.Second), r.service("listener", 3*time.Second))
		require.NoError(t, err)
		require.Equal(t, []string{"listener", "session", "store"}, r.order)
	})
}

func TestRun_FirstFailureEndsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		broken := errors.New("broken")
		err := service.Run(t.Context(), zap.NewNop(), r.service("store", 0),
			service.Service{Name: "session", Run: func(context.Context) error { return broken }}, r.service("listener", time.Second))
		require.ErrorIs(t, err, broken)
		require.ErrorContains(t, err, "session: broken")
		require.Equal(t, []string{"listener", "store"}, r.order)
	})
}

func TestRun_EndingUnaskedIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := service.Run(t.Context(), zap.NewNop(), service.Service{Name: "loop", Run: func(context.Context) error { return nil }})
		require.ErrorContains(t, err, "loop: ended unexpectedly")
	})
}
