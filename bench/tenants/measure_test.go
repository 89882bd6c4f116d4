package tenants

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGoroutines: a goroutine is a stream's if gRPC is on its stack.
func TestGoroutines(t *testing.T) {
	streams, others, err := goroutines(`goroutine profile: total 60
53 @ 0x490a6e 0x46c965
#	0x5736a4	net.(*conn).Read+0x44
#	0xb9e644	google.golang.org/grpc/internal/transport.(*http2Server).HandleStreams+0x44

5 @ 0x490a6e 0x46c965
#	0x153d3c8	github.com/freshet-io/freshet/controlplane/session.(*agent).send+0x188	agent.go:264

2 @ 0x490a6e
#	0x16ed2cf	github.com/freshet-io/freshet/controlplane/replica.(*clock).run+0xcf	clock.go:85
`)
	require.NoError(t, err)
	require.EqualValues(t, 58, streams)
	require.EqualValues(t, 2, others)
}

// TestReport: a figure above its bound is counted.
func TestReport(t *testing.T) {
	r := report{out: t.Output()}
	r.add("at the bound", 5, 5)
	r.note("without a bound", 7)
	r.add("above", 5.01, 5)
	require.Equal(t, 1, r.missed)
}
