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
	Level  string // minimum level: debug, info, warn, error; default info
	Format string // console, a readable line, or json, an object per line; default console
}

// ApplyDefaults sets the fields that are empty.
func (c *Config) ApplyDefaults() {
	if c.Level == "" {
		c.Level = "info"
	}
	if c.Format == "" {
		c.Format = "console"
	}
}

// New returns a logger that writes to w, one goroutine at a time.
func New(c Config, w io.Writer) (*zap.Logger, error) {
	c.ApplyDefaults()
	level, err := zapcore.ParseLevel(c.Level)
	if err != nil {
		return nil, fmt.Errorf("log level: %w", err)
	}
	var core zapcore.Core
	switch c.Format {
	case "console":
		core = newConsole(zapcore.AddSync(w), level)
	case "json":
		encoder := zap.NewProductionEncoderConfig()
		encoder.TimeKey = "time"
		encoder.EncodeTime = zapcore.ISO8601TimeEncoder
		encoder.EncodeDuration = zapcore.StringDurationEncoder
		core = flatErrors{zapcore.NewCore(zapcore.NewJSONEncoder(encoder), zapcore.Lock(zapcore.AddSync(w)), level)}
	default:
		return nil, fmt.Errorf("log format %q: want console or json", c.Format)
	}
	return zap.New(core, zap.ErrorOutput(zapcore.AddSync(w))), nil
}

// flatErrors writes joined errors, which have one line each, as one line.
type flatErrors struct{ zapcore.Core }

func (c flatErrors) With(fields []zapcore.Field) zapcore.Core {
	return flatErrors{c.Core.With(flat(fields))}
}

func (c flatErrors) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

func (c flatErrors) Write(e zapcore.Entry, fields []zapcore.Field) error {
	return c.Core.Write(e, flat(fields))
}

// flat returns the fields with every error of several lines as text with semicolons between them.
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
