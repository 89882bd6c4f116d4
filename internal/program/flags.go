package program

import (
	"github.com/spf13/pflag"

	"github.com/freshet-io/freshet/internal/cli"
	"github.com/freshet-io/freshet/internal/config"
	"github.com/freshet-io/freshet/internal/logging"
)

// BindLog adds the flags of the log, and sets the defaults.
func BindLog(f *pflag.FlagSet, c *logging.Config) {
	c.ApplyDefaults()
	f.Var(config.Choice(&c.Level, logging.Levels...), "log-level", "minimum log level")
	f.Var(config.Choice(&c.Format, logging.Formats...), "log-format", "format of log lines on standard error")
}

// BindFormat adds the flag for the format of a command's results.
func BindFormat(f *pflag.FlagSet, p *Program) {
	p.Streams.Format = cli.FormatText
	f.VarP(config.Choice(&p.Streams.Format, cli.FormatText, cli.FormatJSON), "output", "o", "format of results on standard output")
	config.CommandLineOnly(f, "output")
}
