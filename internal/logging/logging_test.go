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
	log, err := logging.New(logging.Config{Format: "json"}, &out)
	require.NoError(t, err)
	both := errors.Join(errors.New("one"), errors.New("two"))
	log.With(zap.NamedError("before", both)).Info("failed", zap.Error(both))
	require.Contains(t, out.String(), `"before":"one; two","error":"one; two"}`)
	require.Equal(t, 1, strings.Count(out.String(), "\n"))
}

// A console line has the time, the level, the message, the cause, the remedy, and then the fields in their order.
func TestNew_WritesReadableLines(t *testing.T) {
	for _, c := range []struct {
		want  string
		write func(*zap.Logger)
	}{
		{"INFO  agent is ready", func(l *zap.Logger) { l.Info("agent is ready") }},
		{
			"WARN  object store does not answer: no answer within 3s; check the endpoint in --bucket  retry_in=2s logger=agent.store",
			func(l *zap.Logger) {
				l.Named("agent").Named("store").Warn("object store does not answer", zap.Duration("retry_in", 2*time.Second),
					zap.String("check", "the endpoint in --bucket"), zap.Error(errors.New("no answer within 3s")))
			},
		},
		{
			`WARN  failed: one; two; the client speaks TLS  topic=t partition=3 before="one\ntwo" empty=""`,
			func(l *zap.Logger) {
				both := errors.Join(errors.New("one"), errors.New("two"))
				l.With(zap.String("topic", "t"), zap.Int32("partition", 3)).Warn("failed", zap.NamedError("before", both), zap.Error(both),
					zap.String("hint", "the client speaks TLS"), zap.String("empty", ""))
			},
		},
		{
			`ERROR a\tb; c: \x1b[31mred  list=x,y share=0.5 none=<nil> at=2026-11-27T12:00:00Z object="{\"k\":1}" quoted="a b" sign="a=b" escape="\x1b"`,
			func(l *zap.Logger) {
				l.Error("a\tb\nc", zap.Error(errors.New("\x1b[31mred")), zap.Strings("list", []string{"x", "y"}), zap.Float64("share", 0.5), zap.Any("none", nil),
					zap.Time("at", time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)), zap.Any("object", map[string]any{"k": 1}), zap.String("quoted", "a b"),
					zap.String("sign", "a=b"), zap.String("escape", "\x1b"), zap.String("hint", ""), zap.Error(nil))
			},
		},
	} {
		var out bytes.Buffer
		log, err := logging.New(logging.Config{}, &out)
		require.NoError(t, err)
		c.write(log)
		written, line, found := strings.Cut(out.String(), " ")
		require.True(t, found)
		_, err = time.Parse("2006-01-02T15:04:05.000Z0700", written)
		require.NoError(t, err)
		require.Equal(t, c.want+"\n", line)
	}
}

func TestNew_WritesConsoleLinesAtTheLevel(t *testing.T) {
	var out bytes.Buffer
	log, err := logging.New(logging.Config{Level: "warn"}, &out)
	require.NoError(t, err)
	log.Info("unseen")
	log.With(zap.Int("n", 1)).Info("unseen")
	require.Empty(t, out.String())
	log.With(zap.Int("n", 1)).Warn("seen")
	require.Contains(t, out.String(), "WARN  seen  n=1\n")
}

func TestNew_RefusesUnknownValues(t *testing.T) {
	_, err := logging.New(logging.Config{Level: "loud"}, nil)
	require.ErrorContains(t, err, "loud")
	_, err = logging.New(logging.Config{Format: "xml"}, nil)
	require.ErrorContains(t, err, "xml")
}
