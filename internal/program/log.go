package program

import (
	"github.com/spf13/pflag"

	"github.com/freshet-io/freshet/internal/config"
	"github.com/freshet-io/freshet/internal/logging"
)

// BindLog adds the flags of the log, and sets the defaults.
func BindLog(f *pflag.FlagSet, c *logging.Config) {
	c.ApplyDefaults()
	f.Var(config.Choice(&c.Level, logging.Levels...), "log-level", "minimum log level")
	f.Var(config.Choice(&c.Format, logging.Formats...), "log-format", "format of log lines on standard error")
}
