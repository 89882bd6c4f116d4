package writer

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestTrouble_IsToldAtABoundedRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logged := observer.New(zap.WarnLevel)
		trouble := newTrouble(zap.New(core))
		for range 100 {
			trouble.warn("object store fails")
		}
		require.Equal(t, 1, logged.Len())
		<-time.After(troubleEvery)
		trouble.warn("object store fails")
		require.Equal(t, 2, logged.Len())
		require.EqualValues(t, 99, logged.All()[1].ContextMap()["warnings_not_logged"])
	})
}
