package kafka

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/controlplane/api"
)

// A client of an agent without a catalogue gets an error after a second, and a line in the log has the cause. Once the catalogue is there,
// waiting and new clients get versions.
func TestApiVersions_WhileTheAgentStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logged := observer.New(zap.WarnLevel)
		cfg := Config{Catalogue: view.NewCatalogue(), Log: zap.New(core), Fault: func() error { return errors.New("no control plane") }}
		versions := apiVersionsOf(&cfg)
		code := func(version int16) int16 {
			out := call[*kmsg.ApiVersionsResponse](t, versions, version, apiVersionsRequest(), "app")
			require.NotEmpty(t, out.ApiKeys)
			return out.ErrorCode
		}
		began := time.Now()
		for version := int16(0); version <= 4; version++ {
			require.Equal(t, kerr.CoordinatorNotAvailable.Code, code(version))
		}
		require.Equal(t, 5*startingWait, time.Since(began))
		require.Equal(t, 1, logged.Len(), "lines for five connections")
		require.Equal(t, map[string]any{"error": "no control plane", "client_host": "10.0.0.1", "client_id": "app"}, logged.All()[0].ContextMap())

		waiting := make(chan int16)
		go func() { waiting <- code(4) }()
		synctest.Wait()
		cfg.Catalogue.OnCatalogue(&api.Catalogue{Full: true})
		require.Zero(t, <-waiting)
		require.Zero(t, code(3))
		require.Equal(t, 1, logged.Len())
	})
}

func TestApiVersions_OfAnUnknownVersionWhileTheAgentStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reply := start(t, apiVersionsOf(&Config{Catalogue: view.NewCatalogue(), Log: zap.NewNop(), Fault: func() error { return nil }}), 9, apiVersionsRequest(), "")()
		out := kmsg.NewPtrApiVersionsResponse()
		require.NoError(t, out.ReadFrom(whole(reply)))
		require.Equal(t, kerr.UnsupportedVersion.Code, out.ErrorCode)
	})
}
