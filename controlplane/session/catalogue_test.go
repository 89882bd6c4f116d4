package session_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/metadata"
)

// wholeCatalogues is an agent that notes how many topics each full catalogue has.
type wholeCatalogues struct {
	*agent
	topics []int
}

func (h *wholeCatalogues) OnCatalogue(c *api.Catalogue) {
	if c.Full {
		h.topics = append(h.topics, len(c.Topics))
	}
	h.agent.OnCatalogue(c)
}

// A catalogue that is larger than a message and an outbox may be comes in parts. The agent's handler is shown it whole, also
// after a stream that broke off in the middle.
func TestSession_CatalogueLargerThanAMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start("r1")
		w.topic(n, "t", 1)
		const topics = 66
		value := strings.Repeat("v", 1<<20)
		want := []string{"t"}
		for i := range topics {
			c := &metadata.CreateTopic{Name: fmt.Sprintf("big-%02d", i), Partitions: 1, Configs: map[string]string{"k": value}}
			copy(c.ID[:], c.Name)
			want = append(want, c.Name)
			result, _, err := n.Owner().Propose(t.Context(), c)
			require.NoError(t, err)
			require.NoError(t, result.Err)
		}
		var handler *wholeCatalogues
		a := w.agent(func(c *client.Config) {
			handler = &wholeCatalogues{agent: c.Handler.(*agent)}
			c.Handler = handler
		})
		a.opened()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		w.loseConnections()
		w.topic(n, "late", 1)
		_, err := a.Fresh(ctx)
		require.NoError(t, err)
		a.read(func() {
			require.ElementsMatch(t, append(want, "late"), slices.Collect(maps.Keys(a.topics)))
			require.Equal(t, value, a.topics["big-65"].Configs["k"])
			require.Positive(t, len(handler.topics))
			for _, n := range handler.topics {
				require.GreaterOrEqual(t, n, topics+1, "never half")
			}
		})
		a.leave()
		w.stop(n)
	})
}

// Names and values that are not UTF-8 come as Apache Kafka reads them, and what changes after them comes too.
func TestSession_CatalogueOfBytesThatAreNoText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start("r1")
		w.topic(n, "first", 1)
		for _, c := range []*metadata.SetConfigs{
			{Resource: metadata.ConfigClientMetrics, Name: "a\xff", Set: map[string]string{"metrics": "b\xff", "interval.ms": "1000"}},
			{Resource: metadata.ConfigBroker, Set: map[string]string{"k": "c\xff"}},
		} {
			result, _, err := n.Owner().Propose(t.Context(), c)
			require.NoError(t, err)
			require.NoError(t, result.Err)
		}
		create := &metadata.CreateTopic{Name: "t", Partitions: 1, Configs: map[string]string{"k": "d\xff"}}
		copy(create.ID[:], create.Name)
		_, _, err := n.Owner().Propose(t.Context(), create)
		require.NoError(t, err)
		var full *api.Catalogue
		a := w.agent(func(c *client.Config) {
			c.Handler = catalogueFunc{c.Handler.(*agent), func(c *api.Catalogue) { full = c }}
		})
		a.opened()
		synctest.Wait()
		require.NotNil(t, full)
		require.Equal(t, "c\uFFFD", full.BrokerConfigs["k"])
		require.Equal(t, "d\uFFFD", full.Topics[slices.IndexFunc(full.Topics, func(t *api.Topic) bool { return t.Name == "t" })].Configs["k"])
		require.Equal(t, "a\uFFFD", full.ClientMetrics[0].Name)
		require.Equal(t, map[string]string{"metrics": "b\uFFFD", "interval.ms": "1000"}, full.ClientMetrics[0].Configs)
		a.leave()
		w.stop(n)
	})
}

// catalogueFunc is an agent that hands full catalogues to a function.
type catalogueFunc struct {
	*agent
	full func(*api.Catalogue)
}

func (h catalogueFunc) OnCatalogue(c *api.Catalogue) {
	if c.Full {
		h.full(c)
	}
	h.agent.OnCatalogue(c)
}
