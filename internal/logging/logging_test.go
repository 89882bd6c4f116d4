package logging_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/internal/logging"
)

func TestNew_WritesJSONAboveLevel(t *testing.T) {
	var out bytes.Buffer
	log, err := logging.New(logging.Config{Level: "warn", Format: "json"}, &out)
	require.NoError(t, err)
	log.Info("unseen")
	log.Warn("seen", zap.Duration("waited", 1500*time.Millisecond))
	var line map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &line), out.String())
	require.Equal(t, "seen", line["msg"])
	require.Equal(t, "warn", line["level"])
	require.Equal(t, "1.5s", line["waited"])
	require.NotEmpty(t, line["time"])
}

func TestNew_WritesJoinedErrorsAsOneLine(t *testing.T) {
	var out bytes.Buffer
	log, err := logging.New(logging.Config{}, &out)
	require.NoError(t, err)
	both := errors.Join(errors.New("one"), errors.New("two"))
	log.With(zap.NamedError("before", both)).Info("failed", zap.Error(both))
	require.Contains(t, out.String(), `{"before": "one; two", "error": "one; two"}`)
	require.Equal(t, 1, strings.Count(out.String(), "\n"))
}

func TestNew_RefusesUnknownValues(t *testing.T) {
	_, err := logging.New(logging.Config{Level: "loud"}, nil)
	require.ErrorContains(t, err, "loud")
	_, err = logging.New(logging.Config{Format: "xml"}, nil)
	require.ErrorContains(t, err, "xml")
}
