package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/metadata"
)

// TestStall_ZoneWriterIsHidden: a writer that loses the owner for some seconds is hidden from clients, but its session may
// go on, and with it what it has handed in for commit. So clients without sequence numbers wait until that is known, and
// nothing of theirs that failed comes behind what they were told of later.
func TestStall_ZoneWriterIsHidden(t *testing.T) {
	t.Parallel()
	cl := newCluster(t, options{seed: 1, agents: 3, zones: 1})
	cl.createTopic("t", 2)
	sessions := func(of func(metadata.SessionInfo) bool) (n int) {
		_, err := cl.tenure.Load().Read(func(s *metadata.State) {
			for info := range s.Sessions() {
				if of(info) {
					n++
				}
			}
		})
		require.NoError(t, err)
		return n
	}
	cl.await("three agents", func() bool { return sessions(func(i metadata.SessionInfo) bool { return i.Shown() }) == 3 })
	writer, others := cl.zoneWriter()
	var pulses []*pulse
	for i, a := range others {
		p := cl.pulse(a, int32(i), kgo.DisableIdempotentWrite())
		p.acked(20)
		pulses = append(pulses, p)
	}
	writer.link.setDown(true)
	cutAt := time.Now()
	cl.await("the writer to be hidden", func() bool { return sessions(func(i metadata.SessionInfo) bool { return i.Hidden }) == 1 })
	cl.await("the others to give it up, if they do", func() bool { return time.Since(cutAt) > 3800*time.Millisecond })
	writer.link.setDown(false)
	for _, p := range pulses {
		p.acked(100)
		t.Logf("longest stall %v", p.stop().Round(10*time.Millisecond))
		p.check()
	}
	t.Logf("%d sessions closed: none, unless the machine is very busy", sessions(func(i metadata.SessionInfo) bool { return i.Closed }))
}
