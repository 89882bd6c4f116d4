package edge

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

func TestMetrics_NamesAndHelp(t *testing.T) {
	reg := prometheus.NewRegistry()
	_, err := New(Config{Handler: echo, Registerer: reg, Listeners: []Listener{{Address: ":0"}}})
	require.NoError(t, err)
	families, err := reg.Gather()
	require.NoError(t, err)
	var got strings.Builder
	for _, f := range families {
		fmt.Fprintf(&got, "%s %s: %s\n", f.GetType(), f.GetName(), f.GetHelp())
	}
	require.Equal(t, `GAUGE freshet_kafka_connections: Open connections.
COUNTER freshet_kafka_connections_accepted_total: Connections taken.
COUNTER freshet_kafka_connections_closed_total: Connections closed, by reason.
COUNTER freshet_kafka_connections_refused_total: Connections closed at once because there were too many.
COUNTER freshet_kafka_request_bytes_total: Bytes of whole request frames.
GAUGE freshet_kafka_request_memory_bytes: Bytes held in request frames, by budget.
COUNTER freshet_kafka_request_memory_evicted_total: Connections closed because their frame stopped arriving while others waited for memory, by budget.
COUNTER freshet_kafka_request_memory_wait_seconds_total: Time frames waited for memory, by budget.
GAUGE freshet_kafka_request_memory_waiting: Frames that wait for memory, by budget.
HISTOGRAM freshet_kafka_request_seconds: Time from a request's last byte to its answer's last, by API.
COUNTER freshet_kafka_response_bytes_total: Bytes of response frames.
GAUGE freshet_kafka_unsent_bytes: Response bytes that clients have not taken yet.
`, got.String())
}
