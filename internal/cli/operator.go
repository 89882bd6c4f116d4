package cli

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/freshet-io/freshet/internal/access"
	"github.com/freshet-io/freshet/metadata/id"
)

// OperatorConfig has the address of the control plane, and the virtual cluster, for commands without a Kafka request.
type OperatorConfig struct {
	ControlPlane   []string // HTTP addresses of the replicas: host:port or URL
	VirtualCluster string
	Key            string        // an operator key, or a read-only one for lists of zones, writers and jobs; of several with commas, the first
	DataDir        string        // of a freshet dev on this machine, for the three above if ControlPlane is empty; default access.DefaultDir
	Timeout        time.Duration // of a request with all attempts; default 15 s

	all   bool   // the request is about all virtual clusters
	found string // the data directory that completed the addresses
}

// ApplyDefaults fills in fields that are not set.
func (c *OperatorConfig) ApplyDefaults() {
	if c.Timeout == 0 {
		c.Timeout = 15 * time.Second
	}
}

// complete finds a `freshet dev` if no address is given.
func (c *OperatorConfig) complete() error {
	c.ApplyDefaults()
	if len(c.ControlPlane) == 0 {
		dir := cmp.Or(c.DataDir, access.DefaultDir)
		a, err := access.Read(dir)
		switch {
		case err == nil:
			c.found, c.ControlPlane, c.VirtualCluster, c.Key = dir, []string{a.URL}, a.VirtualCluster, a.Key
		case c.DataDir != "":
			return err
		}
	}
	c.Key, _, _ = strings.Cut(c.Key, ",") // the environment of a control plane has all of its keys
	if c.all && (len(c.ControlPlane) == 0 || c.Key == "") {
		return usagef("want --control-plane-http and --operator-key, or --data-dir of a freshet dev (%s, if there is one)", access.DefaultDir)
	}
	if !c.all && (len(c.ControlPlane) == 0 || c.VirtualCluster == "" || c.Key == "") {
		return usagef("want --control-plane-http, --virtual-cluster and --operator-key, or --data-dir of a freshet dev (%s, if there is one)", access.DefaultDir)
	}
	return nil
}

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 64 << 20

var (
	errUnreachable = errors.New("control plane not reached")
	errUnavailable = errors.New("control plane did not answer")
)

// InactiveError is returned for a request about a virtual cluster that is suspended or deleted.
type InactiveError struct {
	State string // suspended or deleted
	text  string // of the control plane, with the remedy
}

func (e *InactiveError) Error() string { return e.text }

// ask asks one replica after the other until one answers, within Timeout. Each replica gets an equal share of the time that is left. A
// change is handed to the next replica only if the replica before was not reached: a replica without an answer may have made the change.
func (c *OperatorConfig) ask(ctx context.Context, method, path string, into any) error {
	var faults []error
	end := time.Now().Add(c.Timeout)
	for i, replica := range c.ControlPlane {
		share := time.Until(end) / time.Duration(len(c.ControlPlane)-i)
		err := c.askReplica(ctx, replica, share, method, path, into)
		again := errors.Is(err, errUnreachable) || method == http.MethodGet && errors.Is(err, errUnavailable)
		if !again {
			if errors.Is(err, errUnavailable) {
				return fmt.Errorf("%w; the change may have been made: run `freshet topic list --deleted` before you repeat it", err)
			}
			return err
		}
		faults = append(faults, err)
	}
	if c.found != "" && errors.Is(errors.Join(faults...), errUnreachable) {
		return fmt.Errorf("%w; does freshet dev run on %s?", faults[0], c.found)
	}
	return distinct(faults)
}

// outageSeconds matches the length of an outage, which differs between replicas.
var outageSeconds = regexp.MustCompile(`, \d+ s\b`)

// distinct joins the errors of replicas. Of errors with the same text, it takes the first.
func distinct(faults []error) error {
	said := map[string]bool{}
	return errors.Join(slices.DeleteFunc(faults, func(err error) bool {
		text := outageSeconds.ReplaceAllString(err.Error(), "")
		again := said[text]
		said[text] = true
		return again
	})...)
}

func (c *OperatorConfig) askReplica(ctx context.Context, replica string, timeout time.Duration, method, path string, into any) error {
	if !strings.Contains(replica, "://") {
		replica = "http://" + replica
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	target := strings.TrimSuffix(replica, "/") + "/v1"
	if !c.all {
		target += "/clusters/" + url.PathEscape(c.VirtualCluster)
	}
	target += path
	ctx, sent := TraceSent(ctx)
	request, err := http.NewRequestWithContext(ctx, method, target, nil)
	if err != nil {
		return usagef("%v", err)
	}
	request.Header.Set("Authorization", "Bearer "+c.Key)
	response, err := http.DefaultClient.Do(request)
	unanswered := errUnavailable
	if !sent() {
		unanswered = errUnreachable
	}
	var dial *net.OpError
	var certificate *tls.CertificateVerificationError
	switch {
	case err == nil:
	case errors.As(err, &dial) && dial.Op == "dial", errors.As(err, &certificate):
		return fmt.Errorf("%w: %w", errUnreachable, ExplainCertificate(err, trustBySystem))
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"): // net/http has no error for it
		return fmt.Errorf("--control-plane-http %s: that port does not speak TLS: write http://", replica)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", unanswered, err)
	default:
		if foreign := foreignHTTP(context.WithoutCancel(ctx), "--control-plane-http", replica, wantOperator); foreign != nil {
			return foreign
		}
		return fmt.Errorf("%w: %w", unanswered, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%w: %w", errUnavailable, err)
	}
	if response.StatusCode == http.StatusOK {
		if err := json.Unmarshal(body, into); err != nil {
			return fmt.Errorf("answer of %s: %w", replica, err)
		}
		return nil
	}
	var failure struct {
		Error string `json:"error"`
		State string `json:"state"`
	}
	if json.Unmarshal(body, &failure) != nil || failure.Error == "" {
		switch {
		case response.StatusCode == http.StatusBadRequest && strings.Contains(string(body), "HTTP request to an HTTPS server"): // net/http's answer
			return fmt.Errorf("--control-plane-http %s: that port speaks TLS: write https://", replica)
		case response.StatusCode == http.StatusNotFound:
			what := fmt.Sprintf("--control-plane-http %s speaks HTTP, but is no control plane's", replica)
			return &foreignError{[]string{what}, wantOperator + "; agents have another one (port 8080 by default)"}
		}
		failure.Error = response.Status
	}
	switch {
	case response.StatusCode == http.StatusServiceUnavailable:
		return fmt.Errorf("%w: %s", errUnavailable, failure.Error)
	case failure.State != "":
		return &InactiveError{State: failure.State, text: failure.Error}
	}
	return errors.New(failure.Error)
}

// deletedTopic is a deleted topic in the control plane's answers.
type deletedTopic struct {
	Name       string    `json:"name"`
	ID         string    `json:"id"`
	Partitions int32     `json:"partitions"`
	Bytes      int64     `json:"bytes"`
	Deleted    time.Time `json:"deleted"`
	Until      time.Time `json:"until"`
}

// ListDeletedTopics writes the topics whose deletion can be undone. Topics of the same name come with their id.
func ListDeletedTopics(ctx context.Context, c OperatorConfig, s Streams) error {
	if err := c.complete(); err != nil {
		return err
	}
	var answer struct {
		Topics []deletedTopic `json:"topics"`
	}
	if err := c.ask(ctx, http.MethodGet, "/deleted-topics", &answer); err != nil {
		return err
	}
	if s.json() {
		return s.WriteJSON(answer.Topics)
	}
	w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	named := map[string]int{}
	for _, t := range answer.Topics {
		named[t.Name]++
	}
	fmt.Fprintln(w, "TOPIC\tPARTITIONS\tSIZE\tDELETED\tRESTORABLE UNTIL")
	for _, t := range answer.Topics {
		name := t.Name
		if named[name] > 1 {
			name += " (id " + t.ID + ")" // undelete and purge take the id
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", name, t.Partitions, sizeText(t.Bytes), t.Deleted.Format(time.RFC3339), t.Until.Format(time.RFC3339))
	}
	return w.Flush()
}

// UndeleteTopic restores a deleted topic, given by name or id, under another name if as is not empty.
func UndeleteTopic(ctx context.Context, c OperatorConfig, topic, as string, s Streams) error {
	if err := c.complete(); err != nil {
		return err
	}
	path := "/deleted-topics/" + url.PathEscape(topic) + "/undelete"
	if as != "" {
		path += "?as=" + url.QueryEscape(as)
	}
	var t deletedTopic
	if err := c.ask(ctx, http.MethodPost, path, &t); err != nil {
		return err
	}
	return results(s, []deletedTopic{t}, func(t deletedTopic) string {
		return fmt.Sprintf("topic %s is back with %s", t.Name, count(int64(t.Partitions), "partition"))
	})
}

// PurgeTopic deletes a deleted topic for good, given by name or id. Unless confirmed, its name has to be typed on the input.
func PurgeTopic(ctx context.Context, c OperatorConfig, topic string, confirmed bool, s Streams) error {
	if err := c.complete(); err != nil {
		return err
	}
	if !confirmed {
		typed, err := s.typed(topic, fmt.Sprintf("Purge deleted topic %s? Its records cannot be brought back.", topic))
		if err != nil {
			return err
		}
		if !typed {
			return fmt.Errorf("topic %s was not purged: give --yes, or type its name", topic)
		}
	}
	var t deletedTopic
	if err := c.ask(ctx, http.MethodPost, "/deleted-topics/"+url.PathEscape(topic)+"/purge", &t); err != nil {
		return err
	}
	return results(s, []deletedTopic{t}, func(t deletedTopic) string {
		return fmt.Sprintf("purged topic %s: %s, %s; its objects are deleted after the grace for garbage (--garbage-grace)",
			t.Name, count(int64(t.Partitions), "partition"), sizeText(t.Bytes))
	})
}

// typed asks the operator to confirm by typing name, and reports whether the answer is that name.
func (s Streams) typed(name, question string) (bool, error) {
	fmt.Fprintf(s.Err, "%s Type %s to go on: ", question, name)
	answer, err := bufio.NewReader(io.LimitReader(s.In, maxTyped)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read the answer: %w", err)
	}
	return strings.TrimSpace(answer) == name, nil
}

// maxTyped is the maximum number of bytes read of an answer.
const maxTyped = 1 << 10

// holding is the control plane's answer about a bundle: the partitions and offsets in it. Job is set after a cut.
type holding struct {
	Bundle     string `json:"bundle"`
	Partitions int    `json:"partitions"`
	Offsets    int64  `json:"offsets"`
	Ranges     []struct {
		Partition string `json:"partition"`
		From      int64  `json:"from"`
		To        int64  `json:"to"`
	} `json:"ranges"`
	Job uint32 `json:"job"`
}

// CutBundle gives up the unreadable records of a bundle. It lists the offsets that partitions have in the bundle. Unless
// confirmed, the operator must type the bundle's name.
func CutBundle(ctx context.Context, c OperatorConfig, name string, confirmed bool, s Streams) error {
	b, err := id.ParseBundle(name)
	if err != nil {
		return usagef("%v", err)
	}
	if err := c.complete(); err != nil {
		return err
	}
	var h holding
	if err := c.ask(ctx, http.MethodGet, "/bundles/"+b.String(), &h); err != nil {
		return err
	}
	for _, r := range h.Ranges {
		if !s.json() {
			fmt.Fprintf(s.Out, "%s: offsets %d to %d\n", r.Partition, r.From, r.To)
		}
	}
	what := count(h.Offsets, "offset") + " of " + count(int64(h.Partitions), "partition")
	if !confirmed {
		typed, err := s.typed(b.String(), fmt.Sprintf("Cut bundle %s? It holds %s. Records that cannot be read are lost for good.", b, what))
		if err != nil {
			return err
		}
		if !typed {
			return fmt.Errorf("bundle %s was not cut: give --yes, or type its name", b)
		}
	}
	if err := c.ask(ctx, http.MethodPost, "/bundles/"+b.String()+"/cut", &h); err != nil {
		return err
	}
	if s.json() {
		return s.WriteJSON(h)
	}
	fmt.Fprintf(s.Out, "job %d rewrites %s and leaves out unreadable records; freshet job list shows when the job has ended\n", h.Job, what)
	return nil
}
