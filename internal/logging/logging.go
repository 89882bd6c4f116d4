// Package logging builds the process's logger.
package logging

import (
	"fmt"
	"io"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Levels and Formats are the accepted values of Config.
var (
	Levels  = []string{"debug", "info", "warn", "error"}
	Formats = []string{"console", "json"}
)

// Config of the logger.
type Config struct {
	Level  string // least level written: debug, info, warn, error; default info
	Format string // console (for people) or json (one object per line); default console
}

// ApplyDefaults fills in what is not set.
func (c *Config) ApplyDefaults() {
	if c.Level == "" {
		c.Level = "info"
	}
	if c.Format == "" {
		c.Format = "console"
	}
}

// New gives a logger that writes to w, which must be safe to write from one goroutine at a time.
func New(c Config, w io.Writer) (*zap.Logger, error) {
	c.ApplyDefaults()
	level, err := zapcore.ParseLevel(c.Level)
	if err != nil {
		return nil, fmt.Errorf("log level: %w", err)
	}
	encoder := zap.NewProductionEncoderConfig()
	encoder.TimeKey = "time"
	encoder.EncodeTime = zapcore.ISO8601TimeEncoder
	encoder.EncodeDuration = zapcore.StringDurationEncoder
	var enc zapcore.Encoder
	switch c.Format {
	case "console":
		encoder.EncodeLevel = zapcore.CapitalLevelEncoder
		enc = zapcore.NewConsoleEncoder(encoder)
	case "json":
		enc = zapcore.NewJSONEncoder(encoder)
	default:
		return nil, fmt.Errorf("log format %q: want console or json", c.Format)
	}
	core := oneLine{zapcore.NewCore(enc, zapcore.Lock(zapcore.AddSync(w)), level)}
	return zap.New(core, zap.ErrorOutput(zapcore.AddSync(w))), nil
}

// oneLine writes errors that were joined, one to a line, as one line that people can read.
type oneLine struct{ zapcore.Core }

func (c oneLine) With(fields []zapcore.Field) zapcore.Core {
	return oneLine{c.Core.With(flat(fields))}
}

func (c oneLine) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

func (c oneLine) Write(e zapcore.Entry, fields []zapcore.Field) error {
	return c.Core.Write(e, flat(fields))
}

// flat gives the fields with every error of several lines as text with semicolons between them.
func flat(fields []zapcore.Field) []zapcore.Field {
	for i, f := range fields {
		err, ok := f.Interface.(error)
		if !ok || f.Type != zapcore.ErrorType {
			continue
		}
		if text := err.Error(); strings.Contains(text, "\n") {
			fields[i] = zap.String(f.Key, strings.ReplaceAll(text, "\n", "; "))
		}
	}
	return fields
}
