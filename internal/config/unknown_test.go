package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/config"
)

func TestUnknownVariables(t *testing.T) {
	known := []string{"FRESHET_BUCKET", "FRESHET_KAFKA_LISTEN", "FRESHET_HTTP_LISTEN", "FRESHET_AGENT_KEY"}
	require.Equal(t, []string{
		"FRESHET_BUKET (is FRESHET_BUCKET meant?)",
		"FRESHET_KAFKA_LISTENS (is FRESHET_KAFKA_LISTEN meant?)",
		"FRESHET_PORT",
		"FRESHET_SOMETHING_ELSE",
		"freshet_bucket (is FRESHET_BUCKET meant?)",
	}, config.UnknownVariables(known, []string{
		"PATH=/bin", "FRESHET_BUCKET=mem://", "FRESHET_SOMETHING_ELSE=1", "FRESHET_BUKET=mem://", "FRESHET_KAFKA_LISTENS=:1", "FRESHET_PORT=9092",
		"freshet_bucket=mem://",
	}))
	require.Empty(t, config.UnknownVariables(known, []string{
		"FRESHET_PORT=tcp://10.0.0.1:9092", "FRESHET_SERVICE_HOST=10.0.0.1", "FRESHET_SERVICE_PORT=9092", "FRESHET_SERVICE_PORT_KAFKA=9092",
		"FRESHET_PORT_9092_TCP=tcp://10.0.0.1:9092", "FRESHET_PORT_9092_TCP_ADDR=10.0.0.1", "FRESHET_PORT_9092_TCP_PROTO=tcp",
		"FRESHET_PORT_9092_TCP_PORT=9092", "FRESHET_AGENT_SERVICE_HOST=10.0.0.2", "FRESHET_AGENT_PORT=tcp://10.0.0.2:9092", "FRESHET_VERSION=1",
	}))
}
