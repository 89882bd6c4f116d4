package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"text/tabwriter"

	"github.com/freshet-io/freshet/controlplane/operator"
)

// ListClusters writes all virtual clusters as one control-plane replica knows them, as a table or as the control plane's JSON. With the
// table, a line for each fault is on standard error.
func ListClusters(ctx context.Context, c OperatorConfig, s Streams) error {
	c.all = true
	if err := c.complete(); err != nil {
		return err
	}
	var raw []json.RawMessage
	after := ""
	for {
		var page struct {
			Clusters []json.RawMessage `json:"clusters"`
			Next     string            `json:"next"`
		}
		if err := c.ask(ctx, http.MethodGet, after, &page); err != nil {
			return err
		}
		raw = append(raw, page.Clusters...)
		if page.Next == "" || len(page.Clusters) == 0 {
			break
		}
		after = "?after=" + url.QueryEscape(page.Next)
	}
	if s.json() {
		return s.WriteJSON(raw)
	}
	w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "VIRTUAL CLUSTER\tCLUSTER ID\tSTATE\tSOURCE\tOWNER")
	var faults []string
	for _, r := range raw {
		var l operator.Listed
		if err := json.Unmarshal(r, &l); err != nil {
			return fmt.Errorf("clusters in the answer: %w", err)
		}
		owner, state := "-", cmp.Or(l.State, "invalid")
		if l.Owner != nil {
			owner = l.Owner.Replica + " at " + l.Owner.Address
		}
		if l.Fault != "" {
			faults = append(faults, l.Fault)
			if l.State != "" {
				state += ", fault"
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", cmp.Or(l.VirtualCluster, "-"), cmp.Or(l.ClusterID, "-"), state, l.Source, owner)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, fault := range faults {
		if _, err := fmt.Fprintln(s.Err, "freshet: "+fault); err != nil {
			return err
		}
	}
	return nil
}
