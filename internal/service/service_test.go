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

// A part hears of the end before any other has stopped, whether the context ends or a part fails.
func TestRun_CallsStoppingFirst(t *testing.T) {
	for name, fails := range map[string]bool{"the context ends": false, "a part fails": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var r recorder
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				http := r.service("http", 0)
				http.Stopping = func() { r.order = append(r.order, "stopping") }
				last := r.service("listener", time.Second)
				if fails {
					last.Run = func(context.Context) error { return errors.New("no") }
				}
				err := service.Run(ctx, zap.NewNop(), http, r.service("session", 0), last)
				require.Equal(t, fails, err != nil)
				require.Equal(t, "stopping", r.order[0])
				require.Equal(t, "http", r.order[len(r.order)-1])
			})
		})
	}
}
