package ctl

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/freshet-io/freshet/controlplane/registry/httpapi"
	"github.com/freshet-io/freshet/internal/cli"
	"github.com/freshet-io/freshet/internal/config"
)

// list writes a list of the team, as a table or as JSON. Records that the server could not read are counted on standard error.
func list[T any](ctx context.Context, a *api, path, header string, row func(T) []string, s cli.Streams) error {
	items, unreadable, err := all[T](ctx, a, path)
	if err != nil {
		return err
	}
	if unreadable > 0 {
		fmt.Fprintf(s.Err, "freshet: the server cannot read %d records of this list; its log names them\n", unreadable)
	}
	if s.Format == cli.FormatJSON {
		return s.WriteJSON(items)
	}
	w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, header)
	for _, item := range items {
		fmt.Fprintln(w, strings.Join(row(item), "\t"))
	}
	return w.Flush()
}

// show writes the result of a change or a look-up: its line of text, or as JSON.
func show(s cli.Streams, result any, format string, args ...any) error {
	if s.Format == cli.FormatJSON {
		return s.WriteJSON(result)
	}
	_, err := fmt.Fprintf(s.Out, format+"\n", args...)
	return err
}

// stateText returns the state of a cluster, and whether it is an operator's.
func stateText(c *httpapi.Cluster) string {
	if c.Blocked != nil {
		return c.State + " (blocked)"
	}
	return c.State
}

// limitsText returns limits in the words of their flags, such as "memory=128MiB log-bytes=32MiB partitions=1000", or a dash for nil.
func limitsText(l *httpapi.Limits) string {
	if l == nil {
		return "-"
	}
	var words []string
	add := func(name string, value *int64, size bool) {
		switch {
		case value == nil:
		case size:
			words = append(words, name+"="+config.Bytes(*value).String())
		default:
			words = append(words, fmt.Sprintf("%s=%d", name, *value))
		}
	}
	add("memory", l.Memory, true)
	add("log-bytes", l.LogBytes, true)
	if l.Warm != nil && *l.Warm {
		words = append(words, "warm")
	}
	add("topics", l.Topics, false)
	add("partitions", l.Partitions, false)
	add("groups", l.Groups, false)
	add("group-members", l.GroupMembers, false)
	add("transactional-ids", l.TransactionalIDs, false)
	add("offset-bytes", l.OffsetBytes, true)
	add("text-bytes", l.TextBytes, true)
	return strings.Join(words, " ")
}

// timeText returns a time, or a dash for nil.
func timeText(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// shellFlags returns the flags of the team and of the API for a command that another person runs. Certificates as text are left out, because they have many lines.
func (c *Config) shellFlags() string {
	flags := "--team=" + shellWord(c.Team) + " --url=" + shellWord(c.URL) // an ID can begin with a hyphen
	if c.CA != "" && !strings.Contains(c.CA, "\n") {
		flags += " --tls-ca=" + shellWord(c.CA)
	}
	return flags
}

// plainWord matches a text that a shell takes as it is.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9@%+=:,./_-]+$`)

// shellWord returns a text as one word of a POSIX shell.
func shellWord(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
