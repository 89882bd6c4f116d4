package session

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// TestTenure_UnseenAfterAPause: the time in which the owner's process was stopped does not count, since nobody could come
// back meanwhile; and nobody is hidden twice while the command is on its way.
func TestTenure_UnseenAfterAPause(t *testing.T) {
	now := time.Now()
	lost := &openSession{serves: true, lost: now}
	tenure := &tenure{metrics: newMetrics(nil)}
	tenure.mu.agents = map[id.Session]*agent{1: {}}
	tenure.mu.sessions = map[id.Session]*openSession{1: {serves: true}, 2: lost}
	require.Empty(t, tenure.unseen(now.Add(hideAfter/2), 0))
	pause := 3 * time.Second
	now = now.Add(pause)
	require.Empty(t, tenure.unseen(now.Add(hideAfter/2), pause))
	require.Equal(t, []*metadata.HideSession{{Session: 2, Hidden: true}}, tenure.unseen(now.Add(hideAfter), 0))
	require.Empty(t, tenure.unseen(now.Add(2*hideAfter), 0))
	lost.hiding, lost.hidden = false, true
	require.Empty(t, tenure.unseen(now.Add(3*hideAfter), 0))
	tenure.mu.agents[2] = &agent{}
	require.Equal(t, []*metadata.HideSession{{Session: 2}}, tenure.unseen(now.Add(4*hideAfter), 0))
}

// TestTenure_UnseenNotServing: who drains, or takes no clients, is not shown anyway, and not counted among those who are.
func TestTenure_UnseenNotServing(t *testing.T) {
	begin := time.Now()
	tenure := &tenure{metrics: newMetrics(nil)}
	tenure.mu.agents = map[id.Session]*agent{1: {}, 2: {}}
	tenure.mu.sessions = map[id.Session]*openSession{
		1: {serves: true, draining: true}, 2: {}, 3: {serves: true, lost: begin}, 4: {lost: begin}, 5: {serves: true, draining: true, lost: begin},
	}
	require.Empty(t, tenure.unseen(begin.Add(time.Minute), 0), "nobody is left to send clients to")
	tenure.mu.sessions[6], tenure.mu.agents[6] = &openSession{serves: true}, &agent{}
	require.Empty(t, tenure.unseen(begin.Add(time.Minute+hideAfter/2), 0), "it has a second from then on")
	require.Equal(t, []*metadata.HideSession{{Session: 3, Hidden: true}}, tenure.unseen(begin.Add(time.Minute+hideAfter), 0))
}

// TestTenure_Rest: the looks rest while all agents are connected and shown, for no longer than until one of them is silent for too long.
func TestTenure_Rest(t *testing.T) {
	now := time.Now()
	one, other := &openSession{heard: now}, &openSession{heard: now}
	tenure := &tenure{limits: Limits{SessionTimeout: 5 * time.Second}}
	require.Equal(t, restFor, tenure.rest(now), "no agents")
	tenure.mu.agents = map[id.Session]*agent{1: {}, 2: {}}
	tenure.mu.sessions = map[id.Session]*openSession{1: one, 2: other}
	require.Equal(t, 5*time.Second-restMargin, tenure.rest(now))
	one.rests, other.rests = 3*time.Second, 3*time.Second
	require.Equal(t, 8*time.Second-restMargin, tenure.rest(now))
	other.heard = now.Add(-6500 * time.Millisecond)
	require.Equal(t, 500*time.Millisecond, tenure.rest(now))
	other.heard = now.Add(-time.Minute)
	require.Equal(t, lookEvery, tenure.rest(now), "its session could not be closed")
	other.heard, other.hidden = now, true
	require.Equal(t, lookEvery, tenure.rest(now))
	other.hidden = false
	delete(tenure.mu.agents, 2)
	require.Equal(t, lookEvery, tenure.rest(now))
}
