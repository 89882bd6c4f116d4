package cli

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// GroupConfig has the settings of the `freshet group` commands; each command uses some of them.
type GroupConfig struct {
	ClientConfig
	Groups []string
	States []string // list: only groups in one of these states; none is all

	Topics     []string // reset-offsets: none is all that the group has offsets of
	Partitions []int32  // reset-offsets: none is all
	To         string   // reset-offsets: as of consume --from
	Execute    bool     // reset-offsets: commit the offsets; otherwise they are only shown
}

// The protocols of groups.
const (
	classicGroup  = "classic"
	consumerGroup = "consumer"
)

// stableGroup is the state of groups, of either protocol, that are at rest and have members.
const stableGroup = "Stable"

// listedGroup is a group in a list.
type listedGroup struct {
	Group    string `json:"group"`
	Protocol string `json:"protocol"` // classic, consumer
	Kind     string `json:"kind"`     // of application: consumer, connect, ...
	State    string `json:"state"`
}

// ListGroups writes the groups' names, protocols and states.
func ListGroups(ctx context.Context, c GroupConfig, s Streams) error {
	return c.once(ctx, s, func(ctx context.Context, admin *kadm.Client) error { return c.list(ctx, admin, s) })
}

func (c GroupConfig) list(ctx context.Context, admin *kadm.Client, s Streams) error {
	groups, err := c.listGroups(ctx, admin, c.States...)
	if err != nil {
		return err
	}
	if s.json() {
		return s.WriteJSON(groups)
	}
	w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "GROUP\tPROTOCOL\tSTATE")
	for _, g := range groups {
		fmt.Fprintf(w, "%s\t%s\t%s\n", g.Group, g.Protocol, g.State)
	}
	return w.Flush()
}

// listGroups asks every agent for its groups, patiently.
func (c ClientConfig) listGroups(ctx context.Context, admin *kadm.Client, states ...string) ([]listedGroup, error) {
	var all, consumers kadm.ListedGroups
	err := c.patiently(ctx, func(ctx context.Context) (err error) {
		if all, err = admin.ListGroups(ctx, states...); err != nil {
			return failed("list groups", err)
		}
		if consumers, err = admin.ListGroupsByType(ctx, []string{consumerGroup}, states...); err != nil {
			return failed("list groups of the consumer protocol", err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	groups := make([]listedGroup, 0, len(all))
	for _, g := range all.Sorted() {
		protocol := classicGroup
		if _, ok := consumers[g.Group]; ok {
			protocol = consumerGroup
		}
		groups = append(groups, listedGroup{Group: g.Group, Protocol: protocol, Kind: g.ProtocolType, State: g.State})
	}
	return groups, nil
}

// DeleteGroups deletes the groups and says which.
func DeleteGroups(ctx context.Context, c GroupConfig, s Streams) error {
	return c.once(ctx, s, func(ctx context.Context, admin *kadm.Client) error { return c.delete(ctx, admin, s) })
}

func (c GroupConfig) delete(ctx context.Context, admin *kadm.Client, s Streams) error {
	answers, err := admin.DeleteGroups(ctx, c.Groups...)
	if err != nil {
		return failed("delete groups", err)
	}
	type deleted struct {
		Group string `json:"group"`
	}
	done := []deleted{}
	var faults []error
	for _, a := range answers.Sorted() {
		if a.Err == nil {
			done = append(done, deleted{a.Group})
		} else {
			faults = append(faults, explainGroup(a.Group, a.Err))
		}
	}
	faults = append(faults, results(s, done, func(d deleted) string { return "deleted group " + d.Group }))
	return errors.Join(faults...)
}

// explainGroup adds what to do about an error that is about a group.
func explainGroup(group string, err error) error {
	switch {
	case errors.Is(err, kerr.GroupIDNotFound):
		return inWords(err, "group %q does not exist; `freshet group list` shows those that do", group)
	case errors.Is(err, kerr.NonEmptyGroup):
		return inWords(err, "group %q has members; stop its consumers first", group)
	default:
		return fmt.Errorf("group %q: %w", group, firstOf(err))
	}
}
