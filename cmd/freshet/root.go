package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/freshet-io/freshet/internal/cli"
	"github.com/freshet-io/freshet/internal/config"
)

const rootHelp = `Freshet is a Kafka-compatible broker whose only storage is an object store.

Try it:
  freshet dev                                  everything in one process, on localhost:9092
  freshet topic create lines --partitions 3
  seq 10 | freshet produce lines
  freshet consume lines --from earliest --exit-at-end

Any Kafka client works as well. Every flag can also be set as FRESHET_<NAME> in the environment or as <name> in a
YAML file given with --config; flags come before environment, environment before file.`

// usageTemplate is cobra's, with flags as package config writes them.
const usageTemplate = `Usage:{{if .Runnable}}
  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} [command]{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags | settings}}{{end}}{{if .HasAvailableInheritedFlags}}
Flags of all commands:
{{.InheritedFlags | settings}}{{end}}{{if .HasAvailableSubCommands}}
{{.CommandPath}} [command] --help tells more about a command.{{end}}
`

func newRoot(p process) *cobra.Command {
	cobra.AddTemplateFunc("settings", config.Usage)
	root := parent("freshet", "A Kafka-compatible broker whose only storage is an object store",
		newDev(p), newAgent(p), newControlPlane(p),
		newTopic(p), newGroup(p), newProduce(p), newConsume(p), newBucket(p), newBundle(p), newJob(p), newZone(p), newHealth(), newBench(p), newVersion(p),
	)
	root.Long = rootHelp
	root.Version = versionLine()
	root.SetVersionTemplate("{{.Version}}\n")
	root.SilenceErrors, root.SilenceUsage = true, true
	// Runs before every command: what the command line left open comes from environment and file.
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		p.nameUnknown(cmd.Root())
		return p.load(cmd.Flags())
	}
	root.SetIn(p.streams.In)
	root.SetOut(p.streams.Out)
	root.SetErr(p.streams.Err)
	root.SetUsageTemplate(usageTemplate)
	root.SetFlagErrorFunc(flagFault)
	root.PersistentFlags().String("config", "", "YAML file with settings; keys are the names of flags without the dashes")
	completeChoices(root)
	return root
}

// completeChoices registers the values of config.Choice flags for shell completion, on cmd and on every command below it.
func completeChoices(cmd *cobra.Command) {
	complete := func(f *pflag.Flag) {
		if choices := config.Choices(f); choices != nil {
			// The only possible error: an earlier command that shares the flag has registered it.
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp))
		}
	}
	cmd.Flags().VisitAll(complete)
	cmd.PersistentFlags().VisitAll(complete)
	for _, child := range cmd.Commands() {
		completeChoices(child)
	}
}

// flagFault is a fault in the flags of a command line.
func flagFault(_ *cobra.Command, err error) error {
	var refused *pflag.InvalidValueError
	if !errors.As(err, &refused) {
		return &cli.UsageError{Message: err.Error()}
	}
	f := refused.GetFlag()
	return &cli.UsageError{Message: fmt.Sprintf("--%s: invalid value %q: %s", f.Name, refused.GetValue(), config.Wanted(f, refused.Unwrap()))}
}

// load completes the flags of the command that is about to run.
func (p process) load(flags *pflag.FlagSet) error {
	file := flags.Lookup("config")
	config.CommandLineOnly(flags, "config")
	path := file.Value.String()
	if !file.Changed {
		path = cmp.Or(p.variable(config.EnvName("config")), path)
	}
	if err := meantTopicConfig(flags, path); err != nil {
		return err
	}
	if err := config.Load(flags, config.Sources{File: path, Environ: p.environ}); err != nil {
		return &cli.UsageError{Message: err.Error()}
	}
	return nil
}

// meantTopicConfig returns a UsageError where --config is given a topic config, as kafka-topics.sh takes it.
func meantTopicConfig(flags *pflag.FlagSet, path string) error {
	if flags.Lookup("topic-config") == nil || !strings.Contains(path, "=") {
		return nil
	}
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	return &cli.UsageError{Message: fmt.Sprintf("--config %s: --config names a YAML file with settings; set a topic config with --topic-config %s, or -c for short", path, path)}
}

// nameUnknown warns, in one line, of variables that are no setting of any command: the mistake would show nowhere else.
func (p process) nameUnknown(root *cobra.Command) {
	var known []string
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		note := func(f *pflag.Flag) { known = append(known, config.EnvName(f.Name)) }
		cmd.Flags().VisitAll(note)
		cmd.PersistentFlags().VisitAll(note)
		for _, child := range cmd.Commands() {
			walk(child)
		}
	}
	walk(root)
	if unknown := config.UnknownVariables(known, p.environ()); len(unknown) > 0 {
		fmt.Fprintf(p.streams.Err, "freshet: ignored environment variables that are no setting: %s\n", strings.Join(unknown, ", "))
	}
}

func (p process) variable(name string) string {
	for _, entry := range p.environ() {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// takes returns an error that names the expected arguments if their number is wrong or one of them is empty.
func takes(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || most >= 0 && len(args) > most || slices.Contains(args, "") {
			return &cli.UsageError{Message: "want " + what + ": " + cmd.UseLine()}
		}
		return nil
	}
}

// parent is a command that only holds others.
func parent(use, short string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.ArbitraryArgs, RunE: func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			message := "unknown command " + strings.Join(args, " ")
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				message += "; is " + strings.Join(near, " or ") + " meant?"
			}
			return &cli.UsageError{Message: message}
		}
		return cmd.Help()
	}}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(children...)
	return cmd
}
