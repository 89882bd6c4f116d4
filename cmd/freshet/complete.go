package main

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet-io/freshet/internal/cli"
	"github.com/freshet-io/freshet/internal/program"
)

// completionLimit bounds the requests for a completion. Without an answer the shell gets no names.
const completionLimit = 2 * time.Second

// names completes up to most arguments, or any number if most is -1, by the names that ask returns.
func names(p *program.Program, most int, ask func(context.Context) ([]string, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if most >= 0 && len(args) >= most || p.Load(cmd) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionLimit)
		defer cancel()
		found, err := ask(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveError
		}
		found = slices.DeleteFunc(found, func(name string) bool { return slices.Contains(args, name) })
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// topicsOf returns a function that asks for the topics of a client's cluster.
func topicsOf(c *cli.ClientConfig) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) { return cli.TopicNames(ctx, *c) }
}

// groupsOf returns a function that asks for the groups of a client's cluster.
func groupsOf(c *cli.ClientConfig) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) { return cli.GroupNames(ctx, *c) }
}

// deletedOf returns a function that asks the control plane for deleted topics.
func deletedOf(c *cli.OperatorConfig) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) { return cli.DeletedTopicNames(ctx, *c) }
}

// completeFlag completes the value of a flag by names.
func completeFlag(cmd *cobra.Command, flag string, complete cobra.CompletionFunc) {
	// The only possible error: the flag is absent, or has a function already.
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err)
	}
}
