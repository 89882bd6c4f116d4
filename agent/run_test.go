package agent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/metadata/id"
)

// TestRivals_WarnOnceOfAnAgentThatStays: a killed predecessor at the same address is gone before, and other agents are no rivals.
func TestRivals_WarnOnceOfAnAgentThatStays(t *testing.T) {
	at := func(session id.Session, peer string, ports ...int32) *view.Member {
		m := &view.Member{Session: session, Peer: peer}
		for _, port := range ports {
			m.Endpoints = append(m.Endpoints, view.Endpoint{Host: "a", Port: port})
		}
		return m
	}
	own := []string{"a:7070", "a:9092", "a:9093"}
	var r rivals
	warned := map[id.Session][]string{}
	rounds := func(n int, others ...*view.Member) {
		for range n {
			r.round(&view.Snapshot{Session: 3, Members: append(others, at(3, "a:7070", 9092, 9093), at(4, "", 9094), at(5, "b:7070"))}, own,
				func(address string, other id.Session) { warned[other] = append(warned[other], address) })
		}
	}
	rounds(rivalRounds-1, at(1, "", 9092))
	rounds(1)
	rounds(rivalRounds-1, at(1, "", 9092))
	require.Empty(t, warned)
	rounds(2*rivalRounds, at(1, "", 9092), at(2, "a:7070", 9095))
	require.Equal(t, map[id.Session][]string{1: {"a:9092"}, 2: {"a:7070"}}, warned)
}
