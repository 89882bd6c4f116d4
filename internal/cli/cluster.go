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
	raw, all, err := c.clusters(ctx)
	if err != nil {
		return err
	}
	if s.json() {
		return s.WriteJSON(raw)
	}
	w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "VIRTUAL CLUSTER\tCLUSTER ID\tSTATE\tSOURCE\tOWNER")
	var faults []string
	for _, l := range all {
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

// clusters returns all virtual clusters as one replica knows them: as its JSON, and decoded.
func (c *OperatorConfig) clusters(ctx context.Context) (raw []json.RawMessage, all []operator.Listed, err error) {
	for after := ""; ; {
		var page struct {
			Clusters []json.RawMessage `json:"clusters"`
			Next     string            `json:"next"`
		}
		if err := c.ask(ctx, http.MethodGet, "/clusters"+after, &page); err != nil {
			return nil, nil, err
		}
		for _, r := range page.Clusters {
			var l operator.Listed
			if err := json.Unmarshal(r, &l); err != nil {
				return nil, nil, fmt.Errorf("clusters in the answer: %w", err)
			}
			raw, all = append(raw, r), append(all, l)
		}
		if page.Next == "" || len(page.Clusters) == 0 {
			return raw, all, nil
		}
		after = "?after=" + url.QueryEscape(page.Next)
	}
}
