package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"
)

// StatusTimeout is the default bound of a request for the status. A replica answers within about 2 s.
const StatusTimeout = 3 * time.Second

// FindingsError is returned by ShowStatus after the status was written, if there are findings.
type FindingsError struct{ Count int }

func (e *FindingsError) Error() string { return count(int64(e.Count), "finding") }

// clusterStatus is the control plane's answer about a whole cluster.
type clusterStatus struct {
	VirtualCluster string `json:"virtual_cluster"`
	Replica        string `json:"replica"`
	Owner          *struct {
		Replica string `json:"replica"`
		Address string `json:"address"`
	} `json:"owner"`
	Replicas []struct {
		Replica string   `json:"replica"`
		Address string   `json:"address"`
		Version string   `json:"version"`
		Uptime  *float64 `json:"uptime_seconds"`
		Silence float64  `json:"silence_seconds"`
		HTTP    string   `json:"http_address"`
	} `json:"replicas"`
	Etcd []struct {
		Address string  `json:"address"`
		Leader  bool    `json:"leader"`
		Latency float64 `json:"latency_seconds"`
		Used    int64   `json:"used_bytes"`
		Allowed int64   `json:"allowed_bytes"`
		Fault   string  `json:"fault"`
	} `json:"etcd"`
	Store struct {
		Location string `json:"location"`
		Fault    string `json:"fault"`
	} `json:"object_store"`
	Agents []struct {
		Session     uint32   `json:"session"`
		Zone        string   `json:"zone"`
		Address     string   `json:"address"`
		Version     string   `json:"version"`
		State       string   `json:"state"`
		Silence     float64  `json:"silence_seconds"`
		Uptime      *float64 `json:"uptime_seconds"`
		Load        *float64 `json:"load"`
		Connections *uint32  `json:"connections"`
	} `json:"agents"`
	MoreAgents int       `json:"more_agents"` // left out of Agents
	AgentsAge  *float64  `json:"agents_age_seconds"`
	Findings   []finding `json:"findings"`

	older []string // addresses of control planes without a status
}

// finding is a fault in words.
type finding struct {
	Kind    string `json:"kind"`
	Subject string `json:"subject"`
	Text    string `json:"text"`
	// Since is the start of the fault; zero if it is unknown.
	Since time.Time `json:"since,omitzero"`
}

// statusAnswer is the answer of one replica.
type statusAnswer struct {
	raw    map[string]json.RawMessage
	status clusterStatus
	err    error
}

// errOlder is the error of a control plane that has no route for the status.
var errOlder = errors.New("an older version without status")

// ShowStatus writes the status of a virtual cluster, or without one that of the control plane: the answer of a replica that knows an owner,
// with the newest list of agents and the findings of all replicas. An address that does not answer is a finding. Errors: FindingsError, InactiveError; if
// no replica answers, the errors of all.
func ShowStatus(ctx context.Context, c OperatorConfig, s Streams) error {
	c.all = c.VirtualCluster == ""
	if err := c.complete(); err != nil {
		return err
	}
	if c.VirtualCluster == "" {
		return c.showPlane(ctx, s)
	}
	c.all = false // complete found a freshet dev
	best, err := c.status(ctx)
	var inactive *InactiveError
	if errors.As(err, &inactive) {
		shown := struct {
			VirtualCluster string `json:"virtual_cluster"`
			State          string `json:"state"`
		}{c.VirtualCluster, inactive.State}
		if s.json() {
			return errors.Join(s.WriteJSON(shown), inactive)
		}
		_, err := fmt.Fprintf(s.Out, "Virtual cluster %s: %s\n", shown.VirtualCluster, shown.State)
		return errors.Join(err, inactive)
	}
	if err != nil {
		return err
	}
	if err := best.write(s); err != nil {
		return err
	}
	return best.findings()
}

// findings returns a FindingsError, or nil without findings.
func (a *statusAnswer) findings() error {
	if n := len(a.status.Findings); n > 0 {
		return &FindingsError{n}
	}
	return nil
}

// status asks all replicas for the status of the virtual cluster, or with all for that of the control plane, and merges their answers.
func (c *OperatorConfig) status(ctx context.Context) (*statusAnswer, error) {
	answers := make([]statusAnswer, len(c.ControlPlane))
	var asked sync.WaitGroup
	for i, replica := range c.ControlPlane {
		asked.Go(func() {
			answers[i] = c.askStatus(ctx, replica)
		})
	}
	asked.Wait()
	best, newest := choose(answers)
	if best == nil {
		var faults []error
		for i := range answers {
			err := answers[i].err
			if errors.Is(err, errOlder) {
				err = fmt.Errorf("control plane at %s: %w", c.ControlPlane[i], err)
			}
			faults = append(faults, err)
		}
		err := distinct(faults)
		if c.found != "" && errors.Is(err, errUnreachable) {
			err = fmt.Errorf("%w; does freshet dev run on %s?", err, c.found)
		}
		return nil, err
	}
	best.takeAgents(newest)
	best.merge(answers, c.ControlPlane)
	return best, nil
}

// askStatus asks one replica. Its error is errOlder if the replica has other routes of a control plane, but not this one.
func (c *OperatorConfig) askStatus(ctx context.Context, replica string) (a statusAnswer) {
	a.err = c.askReplica(ctx, replica, c.Timeout, http.MethodGet, "/status", &a.raw)
	var foreign *foreignError
	if errors.As(a.err, &foreign) {
		known := "/deleted-topics"
		if c.all {
			known = "/clusters"
		}
		var list json.RawMessage
		err := c.askReplica(ctx, replica, c.Timeout, http.MethodGet, known, &list)
		switch {
		case err == nil || errors.Is(err, errUnavailable):
			a.err = errOlder
		case !errors.As(err, &foreign):
			a.err = err
		}
	}
	if a.err != nil {
		return a
	}
	whole, err := json.Marshal(a.raw)
	if err == nil {
		err = json.Unmarshal(whole, &a.status)
	}
	if err == nil && (a.status.Replica == "" || !c.all && a.status.VirtualCluster == "") {
		err = errors.New("no status of a virtual cluster")
	}
	if err != nil {
		a.err = fmt.Errorf("answer of %s: %w", replica, err)
	}
	return a
}

// choose returns the first answer with an owner, or else the one with the newest agents, and the answer with the newest agents. The first
// is nil if no replica answered, the second if no replica has a list of agents.
func choose(answers []statusAnswer) (best, newest *statusAnswer) {
	for i := range answers {
		a := &answers[i]
		if a.err != nil {
			continue
		}
		if age := a.status.AgentsAge; age != nil && (newest == nil || *age < *newest.status.AgentsAge) {
			newest = a
		}
		if best == nil || best.status.Owner == nil && a.status.Owner != nil {
			best = a
		}
	}
	if best != nil && best.status.Owner == nil && newest != nil {
		best = newest
	}
	return best, newest
}

// takeAgents replaces the agents, and the findings about them, by those of another answer. from may be the same answer, or nil.
func (a *statusAnswer) takeAgents(from *statusAnswer) {
	if from == nil || from == a {
		return
	}
	isAgent := func(f finding) bool { return f.Kind == aboutAgent }
	a.status.Findings = slices.DeleteFunc(a.status.Findings, isAgent)
	for _, f := range from.status.Findings {
		if isAgent(f) {
			a.status.Findings = append(a.status.Findings, f)
		}
	}
	a.status.Agents, a.status.MoreAgents, a.status.AgentsAge = from.status.Agents, from.status.MoreAgents, from.status.AgentsAge
	for _, field := range []string{"agents", "more_agents", "agents_age_seconds", "agents_fault"} {
		delete(a.raw, field)
		if value, ok := from.raw[field]; ok {
			a.raw[field] = value
		}
	}
}

// Kinds of findings. merge takes those about the owner and agents from one replica only.
const (
	aboutOwner = "owner"
	aboutAgent = "agent"
)

// merge adds the findings of the other replicas, but not those about the owner and agents, and notes the replicas of older versions. If
// replicas describe the same fault, the one with the earliest start counts.
func (a *statusAnswer) merge(answers []statusAnswer, addresses []string) {
	type about struct{ kind, subject string }
	known := map[about]int{}
	all := []finding{}
	add := func(f finding) {
		at, ok := known[about{f.Kind, f.Subject}]
		switch {
		case !ok || f.Kind == aboutAgent:
			known[about{f.Kind, f.Subject}] = len(all)
			all = append(all, f)
		case !f.Since.IsZero() && f.Since.Before(all[at].Since):
			all[at] = f
		}
	}
	for i := range answers {
		switch err := answers[i].err; {
		case errors.Is(err, errOlder):
			a.status.older = append(a.status.older, addresses[i])
		case err != nil && !silentReplica(answers, addresses[i]):
			add(finding{Kind: "control_plane", Subject: addresses[i], Text: unanswered(addresses[i], err)})
		}
	}
	for _, f := range a.status.Findings {
		add(f)
	}
	for i := range answers {
		for _, f := range answers[i].status.Findings {
			if f.Kind != aboutOwner && f.Kind != aboutAgent {
				add(f)
			}
		}
	}
	a.status.Findings = all
}

// silentReplica reports whether an answer says that the replica with this HTTP address is silent, which is a finding already.
func silentReplica(answers []statusAnswer, address string) bool {
	if _, after, ok := strings.Cut(address, "://"); ok {
		address = strings.TrimSuffix(after, "/")
	}
	for i := range answers {
		for _, r := range answers[i].status.Replicas {
			if r.HTTP == address && r.Silence >= shownSilence {
				return true
			}
		}
	}
	return false
}

// unanswered returns the error of one replica in words.
func unanswered(address string, err error) string {
	var name *net.DNSError
	var number syscall.Errno
	text := "control plane at " + address + " does not answer"
	switch {
	case errors.As(err, &name):
		return text + " (" + name.Err + ")"
	case errors.As(err, &number):
		return text + " (" + number.Error() + ")"
	case errors.Is(err, context.DeadlineExceeded):
		return text
	}
	return "control plane at " + address + ": " + err.Error()
}

// write writes the status: in words, or as the replica's JSON with the findings of all replicas.
func (a *statusAnswer) write(s Streams) error {
	if s.json() {
		findings, err := json.Marshal(a.status.Findings)
		if err != nil {
			return fmt.Errorf("write JSON: %w", err)
		}
		a.raw["findings"] = findings
		return s.WriteJSON(a.raw)
	}
	w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	a.status.print(w)
	return w.Flush()
}

// print writes a section after the other. A line without tabs ends the columns of the table above it.
func (s *clusterStatus) print(w *tabwriter.Writer) {
	fmt.Fprintf(w, "Virtual cluster %s, as replica %s knows it\n\n", s.VirtualCluster, s.Replica)
	s.printControlPlane(w)
	s.printStores(w)
	fmt.Fprintln(w)
	s.printAgents(w)
	s.printFindings(w)
}

// printStores writes etcd's members and the object store, after the control planes that are too old for a status.
func (s *clusterStatus) printStores(w *tabwriter.Writer) {
	for _, address := range s.older {
		fmt.Fprintf(w, "Control plane at %s is of an older version without status\n", address)
	}
	fmt.Fprintf(w, "\nEtcd\n  MEMBER\tLATENCY\tUSED\tALLOWED\tSTATE\n")
	for _, m := range s.Etcd {
		if m.Fault != "" {
			fmt.Fprintf(w, "  %s\t-\t-\t-\t%s\n", m.Address, m.Fault)
			continue
		}
		allowed, state := "-", "follower"
		if m.Allowed > 0 {
			allowed = sizeText(m.Allowed)
		}
		if m.Leader {
			state = "leader"
		}
		fmt.Fprintf(w, "  %s\t%.1f ms\t%s\t%s\t%s\n", m.Address, 1000*m.Latency, sizeText(m.Used), allowed, state)
	}
	store := "works"
	if s.Store.Fault != "" {
		store = "faulty, see the findings"
	}
	bucket, _, _ := strings.Cut(s.Store.Location, "?") // findings name the endpoint
	fmt.Fprintf(w, "\nObject store\n  BUCKET\tSTATE\n  %s\t%s\n", bucket, store)
}

func (s *clusterStatus) printFindings(w *tabwriter.Writer) {
	if len(s.Findings) == 0 {
		fmt.Fprintf(w, "\nFindings: none\n")
		return
	}
	fmt.Fprintf(w, "\nFindings\n")
	for _, f := range s.Findings {
		fmt.Fprintf(w, "  %s\n", f.Text)
	}
}

func (s *clusterStatus) printControlPlane(w *tabwriter.Writer) {
	if s.Owner == nil {
		fmt.Fprintln(w, "Control plane: no owner")
	} else {
		fmt.Fprintf(w, "Control plane: replica %s at %s is the owner\n", s.Owner.Replica, s.Owner.Address)
	}
	s.printReplicas(w, "STATE", func(replica, address string) string {
		if s.Owner != nil && replica == s.Owner.Replica && address == s.Owner.Address { // a killed process may have had the same ID
			return "owner"
		}
		return "standby"
	})
}

// printReplicas writes the replicas. The last column has the value of last for replicas that are not silent.
func (s *clusterStatus) printReplicas(w *tabwriter.Writer, header string, last func(replica, address string) string) {
	fmt.Fprintln(w, "  REPLICA\tADDRESS\tVERSION\tUPTIME\t"+header)
	for _, r := range s.Replicas {
		state := last(r.Replica, r.Address)
		if r.Silence >= shownSilence {
			state = "silent for " + secondsText(r.Silence)
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\n", r.Replica, r.Address, cmp.Or(r.Version, "-"), uptime(r.Uptime), state)
	}
}

// shownSilence is the silence of a healthy process that is not worth a word, in seconds.
const shownSilence = 3

func (s *clusterStatus) printAgents(w *tabwriter.Writer) {
	switch {
	case s.AgentsAge == nil:
		fmt.Fprintln(w, "Agents: not known")
		return
	case *s.AgentsAge >= shownSilence:
		fmt.Fprintf(w, "Agents, as of %s ago\n", secondsText(*s.AgentsAge))
	default:
		fmt.Fprintln(w, "Agents")
	}
	fmt.Fprintln(w, "  ZONE\tAGENT\tADDRESS\tVERSION\tUPTIME\tLOAD\tCONNECTIONS\tSTATE")
	for _, a := range s.Agents {
		load, connections, state := "-", "-", a.State
		if a.Load != nil {
			load = percent(*a.Load)
		}
		if a.Connections != nil {
			connections = strconv.FormatUint(uint64(*a.Connections), 10)
		}
		if state == "hidden" {
			state = "not shown to clients"
		}
		if a.Silence >= shownSilence {
			state += ", silent for " + secondsText(a.Silence)
		}
		fmt.Fprintf(w, "  %s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", cmp.Or(a.Zone, "(none)"), a.Session, a.Address, cmp.Or(a.Version, "-"),
			uptime(a.Uptime), load, connections, state)
	}
	if s.MoreAgents > 0 {
		fmt.Fprintf(w, "  and %d more\n", s.MoreAgents)
	}
}

// uptime returns an age in words, or "-" if it is unknown.
func uptime(seconds *float64) string {
	if seconds == nil {
		return "-"
	}
	return secondsText(*seconds)
}
