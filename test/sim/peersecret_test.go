package sim

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/agent"
	"github.com/freshet-io/freshet/metadata"
)

// TestPeerSecret_AgentKeyOpensNoPeerPort: an agent refuses a request with an agent key at its port for other agents, and takes one with
// the secret.
func TestPeerSecret_AgentKeyOpensNoPeerPort(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{agents: 1, zones: 1})
	session, address := c.agents[0].session(), ""
	_, err := c.tenure.Load().Read(func(s *metadata.State) {
		info, _ := s.Session(session)
		address = info.Peer
	})
	require.NoError(t, err)
	for shown, status := range map[string]int{
		agentKey: http.StatusUnauthorized, newKey: http.StatusUnauthorized, "": http.StatusUnauthorized, "another secret": http.StatusUnauthorized,
		peerSecret: http.StatusOK,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/v1/bundles/1/1?unit=whole&class=live&read=false", nil)
		require.NoError(t, err)
		for name, value := range map[string]string{
			"Authorization": "Bearer " + shown, "Freshet-Cluster": clusterID, "Freshet-Zone": c.agents[0].zone, "Freshet-Agent": "1",
		} {
			r.Header.Set(name, value)
		}
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, status, response.StatusCode, shown)
	}
}

// TestPeerSecret_AgentKeysChange: the agents of a zone get another agent key one by one. All the time, one of them writes for all, and no
// record is read from the object store. So the agents exchange batches and bundles whatever their keys are.
func TestPeerSecret_AgentKeysChange(t *testing.T) {
	t.Parallel()
	const agents, rounds = 3, 5
	key := agentKey
	c := newCluster(t, options{agents: agents, zones: 1, patient: true, agent: func(cfg *agent.Config) { cfg.AgentKey = key }})
	c.createTopic("t", 1)
	written := int64(0)
	exchange := func() (puts, requests int) {
		t.Helper()
		writer, others := c.zoneWriter()
		taken := writer.metric("freshet_zonewriter_taken_bytes_total")
		before, gets := c.audit.puts.Load(), c.audit.gets.Load()
		requests = total(c.agents, "freshet_peer_requests_total")
		var producers, consumers []*kgo.Client
		for _, a := range c.agents {
			producers = append(producers, c.pinned(a, kgo.RecordPartitioner(kgo.ManualPartitioner())))
			consumers = append(consumers, c.pinned(a, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {0: kgo.NewOffset().At(written)}})))
		}
		for range rounds {
			for _, producer := range producers {
				c.writeEach(producer, 1)
				written++
				for _, consumer := range consumers {
					fetches := consumer.PollFetches(t.Context())
					require.NoError(t, fetches.Err())
					require.Equal(t, 1, fetches.NumRecords())
				}
			}
		}
		for i := range producers {
			producers[i].Close()
			consumers[i].Close()
		}
		require.Equal(t, gets, c.audit.gets.Load(), "GETs")
		require.Zero(t, total(c.agents, "freshet_peer_fallbacks_total"))
		require.Greater(t, writer.metric("freshet_zonewriter_taken_bytes_total"), taken)
		for _, a := range others {
			require.Zero(t, a.metric("freshet_zonewriter_failures_total"), a.name)
		}
		return int(c.audit.puts.Load() - before), total(c.agents, "freshet_peer_requests_total") - requests
	}
	puts, requests := exchange()
	t.Logf("one key: %d PUTs, %d requests between agents", puts, requests)
	require.Positive(t, requests)
	key = newKey
	for i, old := range c.agentList() {
		old.stop()
		c.startAgent()
		c.awaitMembers()
		p, r := exchange()
		t.Logf("%d of %d have the new key: %d PUTs, %d requests between agents", i+1, agents, p, r)
		require.Equal(t, puts, p)
		require.Positive(t, r)
	}
}
