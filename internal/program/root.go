package program

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

// usageTemplate is cobra's, with flags as package config writes them.
const usageTemplate = `Usage:{{if .Runnable}}
  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} [command]{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{with .LocalFlags | settings}}

Flags:
{{.}}{{else}}
{{end}}{{with .InheritedFlags | settings}}
Flags of all commands:
{{.}}{{end}}{{if .HasAvailableSubCommands}}
Use {{.CommandPath}} [command] --help for details of a command.{{end}}
`

// Root returns the program's command above all others, which completes the settings of the command that runs.
func (p Program) Root() *cobra.Command {
	cobra.AddTemplateFunc("settings", config.Usage)
	cobra.EnableCommandSorting = false // commands are in the order of use
	root := Parent(p.Name, p.Short, append(p.Commands(p), p.versionCommand())...)
	root.Long = p.Long
	root.Version = p.versionLine()
	root.SetVersionTemplate("{{.Version}}\n")
	root.SilenceErrors, root.SilenceUsage = true, true
	// Runs before every command: settings that the command line left open come from environment and file.
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if !p.SharesVariables {
			p.nameUnknown(cmd.Root())
		}
		return p.Load(cmd)
	}
	root.SetIn(p.Streams.In)
	root.SetOut(p.Streams.Out)
	root.SetErr(p.Streams.Err)
	root.SetUsageTemplate(usageTemplate)
	root.SetFlagErrorFunc(flagFault)
	root.PersistentFlags().String("config", "", "YAML file with settings, one for all commands; keys are the names of flags without the dashes")
	completeChoices(root)
	keepOrder(root)
	return root
}

// keepOrder makes the help show flags in the order in which the commands add them.
func keepOrder(cmd *cobra.Command) {
	cmd.Flags().SortFlags = false
	for _, child := range cmd.Commands() {
		keepOrder(child)
	}
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

// flagFault returns a UsageError for a fault in the flags of a command line.
func flagFault(cmd *cobra.Command, err error) error {
	var absent *pflag.NotExistError
	if errors.As(err, &absent) && absent.GetSpecifiedShortnames() == "" {
		message := err.Error()
		if near := config.Nearest(flagNames(cmd.Flags()), absent.GetSpecifiedName()); near != "" {
			message += "; is --" + near + " meant?"
		}
		return &cli.UsageError{Message: message}
	}
	var refused *pflag.InvalidValueError
	if !errors.As(err, &refused) {
		return &cli.UsageError{Message: err.Error()}
	}
	f := refused.GetFlag()
	return &cli.UsageError{Message: fmt.Sprintf("--%s: invalid value %q: %s", f.Name, refused.GetValue(), config.Wanted(f, refused.Unwrap()))}
}

func flagNames(flags *pflag.FlagSet) (names []string) {
	flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

// Load sets the flags that the command line left open from the environment and the configuration file. Root does so before each
// command; shell completion, for which no command runs, calls it too.
func (p Program) Load(cmd *cobra.Command) error {
	flags := cmd.Flags()
	file := flags.Lookup("config")
	config.CommandLineOnly(flags, "config")
	path := file.Value.String()
	if !file.Changed {
		path = cmp.Or(p.variable(config.EnvName("config")), path)
	}
	if err := meantTopicConfig(flags, path); err != nil {
		return err
	}
	if err := config.Load(flags, config.Sources{File: path, Environ: p.Environ, Others: settings(cmd.Root())}); err != nil {
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

// settings returns the names of the settings of cmd and of every command below it.
func settings(cmd *cobra.Command) []string {
	names := append(config.Settings(cmd.Flags()), config.Settings(cmd.PersistentFlags())...)
	for _, child := range cmd.Commands() {
		names = append(names, settings(child)...)
	}
	return names
}

// nameUnknown warns, in one line, of variables that are a setting of no command: the mistake would show nowhere else.
func (p Program) nameUnknown(root *cobra.Command) {
	known := []string{config.EnvName("config")}
	for _, name := range settings(root) {
		known = append(known, config.EnvName(name))
	}
	if unknown := config.UnknownVariables(known, p.Environ()); len(unknown) > 0 {
		fmt.Fprintf(p.Streams.Err, "%s: ignored environment variables that are no setting: %s\n", p.Name, strings.Join(unknown, ", "))
	}
}

func (p Program) variable(name string) string {
	for _, entry := range p.Environ() {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// Takes returns an error that names the expected arguments if their number is wrong or one of them is empty.
func Takes(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || most >= 0 && len(args) > most || slices.Contains(args, "") {
			return &cli.UsageError{Message: "want " + what + ": " + cmd.UseLine()}
		}
		return nil
	}
}

// Parent returns a command that only holds others.
func Parent(use, short string, children ...*cobra.Command) *cobra.Command {
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
