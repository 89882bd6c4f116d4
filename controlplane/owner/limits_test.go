package owner_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// TestOwner_WarnsNearLimits: from 90 % of a limit on, a warning once a minute names it with its setting. Metrics show limits and their use.
func TestOwner_WarnsNearLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logged, lines := observer.New(zapcore.WarnLevel)
		registry := prometheus.NewRegistry()
		f := start(t, func(c *owner.Config) {
			c.Logger, c.Registerer = zap.New(logged), registry
			c.First = []metadata.Command{&metadata.SetLimits{Limits: metadata.Limits{metadata.LimitTopics: 10, metadata.LimitPartitions: 100}}}
		})
		end := f.run(t)
		defer func() { require.NoError(t, end()) }()
		create := func(n int) {
			t.Helper()
			_, _, err := f.Propose(t.Context(), &metadata.CreateTopic{ID: id.Topic{byte(n)}, Name: fmt.Sprint(n), Partitions: 9})
			require.NoError(t, err)
		}
		for n := range 8 {
			create(n + 1)
		}
		require.Zero(t, lines.Len())
		create(9)
		create(10)
		require.Equal(t, 1, lines.Len())
		require.Contains(t, lines.All()[0].Message, "near its limits")
		require.Equal(t, []any{"topics: 9 of 10 (--max-topics)"}, lines.All()[0].ContextMap()["limits"])
		time.Sleep(time.Minute)
		create(11)
		require.Equal(t, 2, lines.Len())
		require.Equal(t, []any{"topics: 10 of 10 (--max-topics)", "partitions: 90 of 100 (--max-partitions)"}, lines.All()[1].ContextMap()["limits"])
		require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP freshet_owner_limit_used Use of a limit of the state, on the owner; growth beyond the limit is refused.
# TYPE freshet_owner_limit_used gauge
freshet_owner_limit_used{kind="groups"} 0
freshet_owner_limit_used{kind="offset_bytes"} 0
freshet_owner_limit_used{kind="partitions"} 90
freshet_owner_limit_used{kind="text_bytes"} 11
freshet_owner_limit_used{kind="topics"} 10
freshet_owner_limit_used{kind="transactional_ids"} 0
`), "freshet_owner_limit_used"))
	})
}
