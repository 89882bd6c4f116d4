package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/freshet-io/freshet/internal/cli"
	"github.com/freshet-io/freshet/internal/cli/ctl"
	"github.com/freshet-io/freshet/internal/config"
	"github.com/freshet-io/freshet/internal/program"
)

// roleNames are the roles of members, invitations and API tokens.
var roleNames = []string{"owner", "admin", "member", "read-only"}

func newCtl(p program.Program) *cobra.Command {
	cmd := program.Parent("ctl", "Manage teams, virtual clusters, agent keys and API tokens of a hosted control plane",
		newCtlSignUp(p), newCtlVerify(p), newCtlLogIn(p), newCtlPassword(p), newCtlRequestReset(p), newCtlResetPassword(p), newCtlTeam(p), newCtlCluster(p), newCtlKey(p), newCtlMember(p), newCtlInvitation(p), newCtlToken(p), newCtlAudit(p))
	cmd.Long = "Manage teams, virtual clusters, agent keys and API tokens of a hosted control plane, by its HTTP API (--public-listen).\n\n" +
		"An operator creates a team with an operator key. The command writes the team's id and the owner's API token as settings for the environment.\n" +
		"All other commands take these. A secret is written once, to standard output alone."
	cmd.Example = `  export FRESHET_URL=https://cp.example.com:8443
  freshet ctl team create orders --email ada@example.com --operator-key "$OPERATOR_KEY" > orders.env
  set -a; . ./orders.env
  freshet ctl cluster create main
  freshet ctl key create main agents`
	return cmd
}

// ctlCommand is a command of `freshet ctl`.
type ctlCommand struct {
	use, short string
	args       int    // number of arguments
	takes      string // the arguments in words
	example    string
	run        func(ctx context.Context, c ctl.Config, args []string, s cli.Streams) error
	bind       func(f *pflag.FlagSet) // further flags, or nil
	operator   bool                   // takes an operator key in place of a team and an API token
	password   bool                   // takes a password in place of them
	anyone     bool                   // takes none of them
}

// command returns the command with the flags of all of them.
func (d ctlCommand) command(p program.Program) *cobra.Command {
	var c ctl.Config
	c.ApplyDefaults()
	cmd := &cobra.Command{
		Use: d.use, Short: d.short, Args: program.Takes(d.args, d.args, d.takes), Example: d.example,
		RunE:              func(cmd *cobra.Command, args []string) error { return d.run(cmd.Context(), c, args, p.Streams) },
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVar(&c.URL, "url", "", "URL of --public-listen of a control plane, such as https://cp.example.com:8443")
	switch {
	case d.anyone:
	case d.password:
		f.StringVar(&c.Password.Text, "password", "", "password of the account; better given in the environment, or in --password-file")
		f.StringVar(&c.Password.File, "password-file", "", "file with the password of the account, in place of --password")
	case d.operator:
		f.StringVar(&c.OperatorKey, "operator-key", "", "an operator key of the control plane that begins with fso_; better given in the environment")
	default:
		f.StringVar(&c.Team, "team", "", "id of the team")
		f.StringVar(&c.Token, "token", "", "API token of the team; better given in the environment, or in --token-file")
		f.StringVar(&c.TokenFile, "token-file", "", "file with an API token of the team, in place of --token")
	}
	f.StringVar(&c.CA, "tls-ca", "", "PEM file or text of certificates to trust instead of the system's")
	f.DurationVar(&c.Timeout, "timeout", c.Timeout, "maximum time of a request with its answer")
	program.BindFormat(f, &p)
	if d.bind != nil {
		d.bind(f)
	}
	config.SetGroups(f, connection)
	return cmd
}

func newCtlSignUp(p program.Program) *cobra.Command {
	var demo bool
	return ctlCommand{
		use: "signup EMAIL TEAM CLUSTER", short: "Create an account with a team, a virtual cluster and an agent key", args: 3,
		takes: "one e-mail address, the name of one team and of one cluster", password: true,
		example: "  FRESHET_PASSWORD=... freshet ctl signup ada@example.com orders main > agent.env",
		bind: func(f *pflag.FlagSet) {
			f.BoolVar(&demo, "demo", false, "delete the virtual cluster after 24 h")
			config.CommandLineOnly(f, "demo")
		},
		run: func(ctx context.Context, c ctl.Config, args []string, s cli.Streams) error {
			return ctl.SignUp(ctx, c, args[0], args[1], args[2], demo, s)
		},
	}.command(p)
}

func newCtlLogIn(p program.Program) *cobra.Command {
	var team string
	expires := 24 * time.Hour
	return ctlCommand{
		use: "login EMAIL", short: "Create an API token with your role by a password", args: 1, takes: "one e-mail address", password: true,
		example: "  FRESHET_PASSWORD=... freshet ctl login ada@example.com > team.env",
		bind: func(f *pflag.FlagSet) {
			f.StringVar(&team, "team", "", "id of the team; not needed if the account has one team")
			f.DurationVar(&expires, "expires", expires, "time after which the token is invalid, at most 366 days")
		},
		run: func(ctx context.Context, c ctl.Config, args []string, s cli.Streams) error {
			c.Team = team
			return ctl.LogIn(ctx, c, args[0], expires, s)
		},
	}.command(p)
}

func newCtlVerify(p program.Program) *cobra.Command {
	return ctlCommand{
		use: "verify TOKEN", short: "Complete a sign-up by the token of its mail and its password", args: 1, takes: "the token of one mail", password: true,
		example: "  FRESHET_PASSWORD=... freshet ctl verify TOKEN > agent.env", run: withArgument(ctl.Verify),
	}.command(p)
}

func newCtlRequestReset(p program.Program) *cobra.Command {
	return ctlCommand{
		use: "request-reset EMAIL", short: "Request a mail with which you set another password", args: 1, takes: "one e-mail address", anyone: true,
		run: withArgument(ctl.RequestReset),
	}.command(p)
}

func newCtlResetPassword(p program.Program) *cobra.Command {
	var next ctl.Secret
	return ctlCommand{
		use: "reset-password TOKEN", short: "Set another password by the token of a mail, which ends your sessions", args: 1, takes: "the token of one mail", anyone: true,
		example: "  FRESHET_NEW_PASSWORD=... freshet ctl reset-password TOKEN", bind: bindNewPassword(&next),
		run: func(ctx context.Context, c ctl.Config, args []string, s cli.Streams) error {
			return ctl.ResetPassword(ctx, c, args[0], next, s)
		},
	}.command(p)
}

// bindNewPassword returns the function that adds the flags of the next password.
func bindNewPassword(next *ctl.Secret) func(*pflag.FlagSet) {
	return func(f *pflag.FlagSet) {
		f.StringVar(&next.Text, "new-password", "", "next password of the account; better given in the environment, or in --new-password-file")
		f.StringVar(&next.File, "new-password-file", "", "file with the next password of the account, in place of --new-password")
	}
}

func newCtlPassword(p program.Program) *cobra.Command {
	var next ctl.Secret
	return ctlCommand{
		use: "password EMAIL", short: "Change your password, which ends your sessions", args: 1, takes: "one e-mail address", password: true,
		example: "  FRESHET_PASSWORD=... FRESHET_NEW_PASSWORD=... freshet ctl password ada@example.com",
		bind:    bindNewPassword(&next),
		run: func(ctx context.Context, c ctl.Config, args []string, s cli.Streams) error {
			return ctl.ChangePassword(ctx, c, args[0], next, s)
		},
	}.command(p)
}

func newCtlTeam(p program.Program) *cobra.Command {
	var email string
	return program.Parent("team", "Create, approve, show, rename and leave a team",
		ctlCommand{
			use: "create NAME", short: "Create a team and its owner, with an operator key", args: 1, takes: "the name of one team", operator: true,
			example: "  freshet ctl team create orders --email ada@example.com",
			bind: func(f *pflag.FlagSet) {
				f.StringVar(&email, "email", "", "e-mail address of the owner; an account that an operator has created with this address becomes the owner, or else a new one")
			},
			run: func(ctx context.Context, c ctl.Config, args []string, s cli.Streams) error {
				return ctl.CreateTeam(ctx, c, args[0], email, s)
			},
		}.command(p),
		ctlCommand{
			use: "approve TEAM", short: "Lift the bounds of the team of a sign-up, with an operator key", args: 1, takes: "the id of one team", operator: true,
			run: withArgument(ctl.ApproveTeam),
		}.command(p),
		ctlCommand{use: "get", short: "Show the team", takes: "no arguments", run: withoutArgument(ctl.GetTeam)}.command(p),
		ctlCommand{use: "rename NAME", short: "Change the name of the team", args: 1, takes: "one name", run: withArgument(ctl.RenameTeam)}.command(p),
		ctlCommand{use: "leave", short: "Leave the team, which deletes your API tokens of the team", takes: "no arguments", run: withoutArgument(ctl.LeaveTeam)}.command(p),
	)
}

func newCtlCluster(p program.Program) *cobra.Command {
	const one = "the name or id of one cluster"
	return program.Parent("cluster", "List, create, show, rename, suspend, resume, delete, undelete, purge, limit, block and unblock virtual clusters",
		ctlCommand{use: "list", short: "List the virtual clusters of the team", takes: "no arguments", run: withoutArgument(ctl.ListClusters)}.command(p),
		ctlCommand{
			use: "list-all", short: "List the virtual clusters of all teams, with an operator key", takes: "no arguments", operator: true,
			run: withoutArgument(ctl.ListAllClusters),
		}.command(p),
		newCtlClusterLimit(p),
		ctlCommand{
			use: "block CLUSTER-ID", short: "Suspend a virtual cluster so that its team cannot resume it, with an operator key", args: 1, takes: "the id of one cluster", operator: true,
			run: withArgument(ctl.BlockCluster),
		}.command(p),
		ctlCommand{
			use: "unblock CLUSTER-ID", short: "Resume a virtual cluster that an operator has suspended, with an operator key", args: 1, takes: "the id of one cluster", operator: true,
			run: withArgument(ctl.UnblockCluster),
		}.command(p),
		ctlCommand{use: "create NAME", short: "Create a virtual cluster", args: 1, takes: "the name of one cluster", run: withArgument(ctl.CreateCluster)}.command(p),
		ctlCommand{use: "get CLUSTER", short: "Show a virtual cluster", args: 1, takes: one, run: withArgument(ctl.GetCluster)}.command(p),
		ctlCommand{
			use: "rename CLUSTER NAME", short: "Change the name of a virtual cluster, whose id and agent keys stay", args: 2, takes: one + ", and the new name",
			run: withArguments(ctl.RenameCluster),
		}.command(p),
		ctlCommand{use: "suspend CLUSTER", short: "Stop a virtual cluster, whose agents wait until it is resumed", args: 1, takes: one, run: withArgument(ctl.SuspendCluster)}.command(p),
		ctlCommand{use: "resume CLUSTER", short: "Resume a suspended virtual cluster", args: 1, takes: one, run: withArgument(ctl.ResumeCluster)}.command(p),
		ctlCommand{use: "delete CLUSTER", short: "Stop a virtual cluster and remove it after 24 h", args: 1, takes: one, run: withArgument(ctl.DeleteCluster)}.command(p),
		ctlCommand{use: "undelete CLUSTER", short: "Bring a deleted virtual cluster back", args: 1, takes: one, run: withArgument(ctl.UndeleteCluster)}.command(p),
		ctlCommand{use: "purge CLUSTER", short: "Remove a deleted virtual cluster at once", args: 1, takes: one, run: withArgument(ctl.PurgeCluster)}.command(p),
	)
}

func newCtlKey(p program.Program) *cobra.Command {
	return program.Parent("key", "List, create and revoke the agent keys of a virtual cluster",
		ctlCommand{use: "list CLUSTER", short: "List the agent keys of a virtual cluster", args: 1, takes: "the name or id of one cluster", run: withArgument(ctl.ListKeys)}.command(p),
		ctlCommand{
			use: "create CLUSTER NAME", short: "Create an agent key and print it", args: 2, takes: "the name or id of one cluster, and the name of the key",
			run: withArguments(ctl.CreateKey),
		}.command(p),
		ctlCommand{
			use: "revoke CLUSTER KEY", short: "Revoke an agent key, which ends the streams of its agents", args: 2, takes: "the name or id of one cluster, and the id of one key",
			run: withArguments(ctl.RevokeKey),
		}.command(p),
	)
}

func newCtlMember(p program.Program) *cobra.Command {
	const one = "the e-mail address or account id of one member"
	return program.Parent("member", "List and remove members of the team, change their roles",
		ctlCommand{use: "list", short: "List the members of the team", takes: "no arguments", run: withoutArgument(ctl.ListMembers)}.command(p),
		ctlCommand{
			use: "set-role MEMBER ROLE", short: "Change the role of a member to owner, admin, member or read-only", args: 2, takes: one + ", and one role",
			run: withArguments(ctl.SetRole),
		}.command(p),
		ctlCommand{use: "remove MEMBER", short: "Remove a member and the member's API tokens", args: 1, takes: one, run: withArgument(ctl.RemoveMember)}.command(p),
	)
}

func newCtlInvitation(p program.Program) *cobra.Command {
	role := roleNames[2]
	return program.Parent("invitation", "List, create, accept and revoke invitations into a team",
		ctlCommand{use: "list", short: "List the open invitations", takes: "no arguments", run: withoutArgument(ctl.ListInvitations)}.command(p),
		ctlCommand{
			use: "create EMAIL", short: "Invite an e-mail address and print the command that accepts the invitation", args: 1, takes: "one e-mail address",
			bind: bindRole(&role, "role that the account gets"),
			run: func(ctx context.Context, c ctl.Config, args []string, s cli.Streams) error {
				return ctl.CreateInvitation(ctx, c, args[0], role, s)
			},
		}.command(p),
		newCtlInvitationAccept(p),
		ctlCommand{use: "revoke INVITATION", short: "Revoke an invitation", args: 1, takes: "the id of one invitation", run: withArgument(ctl.RevokeInvitation)}.command(p),
	)
}

func newCtlInvitationAccept(p program.Program) *cobra.Command {
	var team string
	var signUp bool
	return ctlCommand{
		use: "accept EMAIL SECRET", short: "Join a team by the secret of an invitation and a password", args: 2,
		takes: "the invited e-mail address, and the secret of one invitation", password: true,
		example: "  FRESHET_PASSWORD=... freshet ctl invitation accept bob@example.com SECRET --team TEAM",
		bind: func(f *pflag.FlagSet) {
			f.StringVar(&team, "team", "", "id of the team")
			f.BoolVar(&signUp, "signup", false, "create an account with the e-mail address and the password")
			config.CommandLineOnly(f, "signup")
		},
		run: func(ctx context.Context, c ctl.Config, args []string, s cli.Streams) error {
			c.Team = team
			return ctl.AcceptInvitation(ctx, c, args[0], args[1], signUp, s)
		},
	}.command(p)
}

func newCtlToken(p program.Program) *cobra.Command {
	role := roleNames[3]
	var expires time.Duration
	return program.Parent("token", "List, create and revoke API tokens",
		ctlCommand{use: "list", short: "List your API tokens; admins and owners see those of all members", takes: "no arguments", run: withoutArgument(ctl.ListTokens)}.command(p),
		ctlCommand{
			use: "create NAME", short: "Create an API token and print it", args: 1, takes: "the name of one token",
			bind: func(f *pflag.FlagSet) {
				bindRole(&role, "highest role of the token")(f)
				f.DurationVar(&expires, "expires", 0, "time after which the token is invalid, at most 366 days; 0 means that it does not expire")
			},
			run: func(ctx context.Context, c ctl.Config, args []string, s cli.Streams) error {
				return ctl.CreateToken(ctx, c, args[0], role, expires, s)
			},
		}.command(p),
		ctlCommand{use: "revoke TOKEN", short: "Revoke an API token", args: 1, takes: "the id of one token", run: withArgument(ctl.RevokeToken)}.command(p),
	)
}

func newCtlAudit(p program.Program) *cobra.Command {
	return ctlCommand{use: "audit", short: "List the newest changes of the team, up to 1,000", takes: "no arguments", run: withoutArgument(ctl.ListAudit)}.command(p)
}

// bindRole returns the function that adds the flag for a role.
func bindRole(role *string, help string) func(*pflag.FlagSet) {
	return func(f *pflag.FlagSet) {
		f.Var(config.Choice(role, roleNames...), "role", help)
		config.CommandLineOnly(f, "role")
	}
}

func withoutArgument(run func(context.Context, ctl.Config, cli.Streams) error) func(context.Context, ctl.Config, []string, cli.Streams) error {
	return func(ctx context.Context, c ctl.Config, _ []string, s cli.Streams) error { return run(ctx, c, s) }
}

func withArgument(run func(context.Context, ctl.Config, string, cli.Streams) error) func(context.Context, ctl.Config, []string, cli.Streams) error {
	return func(ctx context.Context, c ctl.Config, args []string, s cli.Streams) error {
		return run(ctx, c, args[0], s)
	}
}

func withArguments(run func(context.Context, ctl.Config, string, string, cli.Streams) error) func(context.Context, ctl.Config, []string, cli.Streams) error {
	return func(ctx context.Context, c ctl.Config, args []string, s cli.Streams) error {
		return run(ctx, c, args[0], args[1], s)
	}
}
