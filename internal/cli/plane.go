package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/freshet-io/freshet/controlplane/operator"
)

// maxFaulty bounds the virtual clusters with a fault that a status names.
const maxFaulty = 20

// planeStatus is the status of the control plane without a virtual cluster.
type planeStatus struct {
	clusterStatus
	states map[string]int // virtual clusters by state
	faulty int            // of them
	owned  map[string]int // virtual clusters by the address of their owner
}

// showPlane writes the replicas, etcd, the object store and the number of virtual clusters, with the faults of maxFaulty virtual clusters as findings. The list
// of virtual clusters comes from the first replica that answers.
func (c *OperatorConfig) showPlane(ctx context.Context, s Streams) error {
	answer, err := c.status(ctx)
	if err != nil {
		return err
	}
	_, all, err := c.clusters(ctx)
	if err != nil {
		return err
	}
	plane := planeStatus{states: map[string]int{}, owned: map[string]int{}}
	for _, l := range all {
		plane.add(&l, &answer.status)
	}
	if more := plane.faulty - maxFaulty; more > 0 {
		text := fmt.Sprintf("%d more virtual clusters have faults: see `freshet cluster list`", more)
		answer.status.Findings = append(answer.status.Findings, finding{Kind: aboutCluster, Text: text})
	}
	plane.clusterStatus = answer.status
	if err := plane.write(answer.raw, s); err != nil {
		return err
	}
	return answer.findings()
}

// aboutCluster is the kind of findings about virtual clusters in the status of the control plane.
const aboutCluster = "virtual_cluster"

// add counts a virtual cluster, and adds its fault to a status.
func (p *planeStatus) add(l *operator.Listed, to *clusterStatus) {
	p.states[cmp.Or(l.State, "invalid")]++
	if l.Owner != nil {
		p.owned[l.Owner.Address]++
	}
	if l.Fault == "" {
		return
	}
	if p.faulty++; p.faulty <= maxFaulty {
		to.Findings = append(to.Findings, finding{Kind: aboutCluster, Subject: cmp.Or(l.VirtualCluster, l.ClusterID), Text: l.Fault})
	}
}

// write writes the status: in words, or as the JSON of the control plane's status with the numbers of virtual clusters.
func (p *planeStatus) write(raw map[string]json.RawMessage, s Streams) error {
	if s.json() {
		shown := map[string]any{"virtual_clusters": p.states, "virtual_clusters_with_faults": p.faulty, "findings": p.Findings}
		for _, field := range []string{"replica", "replicas", "etcd", "object_store"} {
			if value, ok := raw[field]; ok {
				shown[field] = value
			}
		}
		return s.WriteJSON(shown)
	}
	w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	var counts []string
	total := 0
	for _, state := range []string{"active", "suspended", "deleted", "invalid"} {
		if n := p.states[state]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, state))
			total += n
		}
	}
	fmt.Fprintf(w, "Virtual clusters: %d", total)
	if total > 0 {
		fmt.Fprintf(w, " (%s), %d with faults", strings.Join(counts, ", "), p.faulty)
	}
	fmt.Fprintf(w, "\n\nControl plane, as replica %s knows it\n", p.Replica)
	p.printReplicas(w, "OWNS", func(_, address string) string { return fmt.Sprint(p.owned[address]) })
	p.printStores(w)
	p.printFindings(w)
	return w.Flush()
}
