package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/internal/tlsfiles"
	"github.com/freshet-io/freshet/internal/wait"
)

// Streams are a command's input and outputs, and the format of its results.
type Streams struct {
	In     io.Reader
	Out    io.Writer
	Err    io.Writer // questions, warnings and the counts of --verbose; errors are returned instead
	Format string    // of results in Out: FormatText or FormatJSON; "" means FormatText
}

// Formats of results.
const (
	FormatText = "text"
	FormatJSON = "json"
)

func (s Streams) json() bool { return s.Format == FormatJSON }

// WriteJSON writes a result as JSON with indentation.
func (s Streams) WriteJSON(v any) error {
	e := json.NewEncoder(s.Out)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// defaultBootstrap is the default address of `freshet dev`.
const defaultBootstrap = "localhost:9092"

// results writes the results of a change: each as a line of text, or all as a JSON array.
func results[T any](s Streams, done []T, line func(T) string) error {
	if s.json() {
		return s.WriteJSON(done)
	}
	for _, d := range done {
		if _, err := fmt.Fprintln(s.Out, line(d)); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
	}
	return nil
}

// ClientConfig has the address of a cluster, and the settings of a client.
type ClientConfig struct {
	Bootstrap []string       // host:port of one or more agents; Locate has the default
	DataDir   string         // of a freshet dev on this machine, for the default of Bootstrap
	ClientID  string         // as agents see it, may carry a zone (zone=a); default freshet-cli
	Timeout   time.Duration  // of a command that ends by itself, and of each request of other commands; default 15 s
	TLS       bool           // use TLS with the system's trust store
	Files     tlsfiles.Files // certificates of one's own choice; imply TLS

	found    string        // the data directory by which Locate found Bootstrap
	persists bool          // dial repeats refused connections for Timeout
	patience time.Duration // of the line about a missing answer, acknowledgement or record; default defaultPatience
}

// ApplyDefaults fills in fields that are not set.
func (c *ClientConfig) ApplyDefaults() {
	if c.ClientID == "" {
		c.ClientID = "freshet-cli"
	}
	if c.Timeout == 0 {
		c.Timeout = 15 * time.Second
	}
	if c.patience == 0 {
		c.patience = defaultPatience
	}
}

// UsageError is a fault in how a command was called.
type UsageError struct{ Message string }

func (e *UsageError) Error() string { return e.Message }

func usagef(format string, args ...any) error {
	return &UsageError{fmt.Sprintf(format, args...)}
}

// dial returns a client that has reached the cluster once, so that later errors have other causes.
func (c ClientConfig) dial(ctx context.Context, opts ...kgo.Opt) (*kgo.Client, error) {
	c.ApplyDefaults()
	if err := c.Locate(ctx); err != nil {
		return nil, err
	}
	base := []kgo.Opt{
		kgo.SeedBrokers(c.Bootstrap...),
		kgo.ClientID(c.ClientID),
		kgo.DialTimeout(min(c.Timeout, 10*time.Second)),
		kgo.RetryTimeout(c.Timeout),
	}
	tlsConfig, err := c.Files.Client(c.TLS, zap.NewNop())
	if err != nil {
		return nil, err
	}
	if tlsConfig != nil {
		base = append(base, kgo.DialTLSConfig(tlsConfig))
	}
	client, err := kgo.NewClient(append(base, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	if err := c.ping(ctx, client, tlsConfig != nil); err != nil {
		return nil, c.unreachable(err)
	}
	return client, nil
}

// ping asks until one of the agents answers, and closes the client if none does.
func (c ClientConfig) ping(ctx context.Context, client *kgo.Client, secured bool) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	look := func(ctx context.Context) error { return c.foreigners(ctx, secured) }
	ask := client.Ping
	if c.persists {
		ask = func(ctx context.Context) error { return c.patiently(ctx, client.Ping) }
	}
	err := firstAnswer(ctx, ask, look, client.Close)
	if err != nil {
		client.Close()
	}
	return err
}

// firstAnswer calls ask. If ask fails or takes longer than foreignAfter, look finds out whether the address speaks another
// protocol, since such servers may take minutes to give up on a Kafka request. An error of look ends ask by hangUp, and is
// returned; an answer ends look. Both functions have returned when firstAnswer does.
func firstAnswer(ctx context.Context, ask, look func(context.Context) error, hangUp func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	asked, looked := make(chan error, 1), make(chan error, 1)
	go func() { asked <- ask(ctx) }()
	soon := time.NewTimer(foreignAfter)
	defer soon.Stop()
	select {
	case err := <-asked:
		if err == nil {
			return nil
		}
		return cmp.Or(look(ctx), err)
	case <-soon.C:
	}
	go func() { looked <- look(ctx) }()
	select {
	case err := <-asked:
		if err == nil {
			cancel()
		}
		if other := <-looked; err != nil {
			return cmp.Or(other, err)
		}
		return nil
	case other := <-looked:
		if other != nil {
			hangUp()
		}
		return cmp.Or(other, <-asked)
	}
}

// patiently repeats a read-only request for up to Timeout while an agent cannot be dialed. An agent that was killed stays in Metadata for about
// five seconds, and the client library does not repeat requests for one agent.
func (c ClientConfig) patiently(ctx context.Context, ask func(context.Context) error) error {
	c.ApplyDefaults()
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	for {
		err := ask(ctx)
		var op *net.OpError
		if !errors.As(err, &op) || op.Op != "dial" || wait.For(ctx, dialPause) != nil {
			return err
		}
	}
}

// dialPause is the pause between attempts of patiently.
const dialPause = 250 * time.Millisecond

func (c ClientConfig) unreachable(err error) error {
	at := strings.Join(c.Bootstrap, ",")
	var other *foreignError
	if errors.As(err, &other) {
		return err
	}
	if errors.Is(err, context.Canceled) {
		return inWords(err, "stopped before an agent at %s answered", at)
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		switch {
		case c.found != "":
			return fmt.Errorf("nothing answers at %s; does freshet dev run on %s?: %w", at, c.found, err)
		case !slices.Equal(c.Bootstrap, []string{defaultBootstrap}):
			return fmt.Errorf("nothing answers at %s: %w", at, err)
		}
		return fmt.Errorf("nothing answers at %s; start `freshet dev`, or name an agent with --bootstrap-server: %w", at, err)
	}
	var hungUp *kgo.ErrFirstReadEOF
	if secured := c.TLS || c.Files != (tlsfiles.Files{}); secured && (errors.As(err, &hungUp) || errors.Is(err, syscall.ECONNRESET)) {
		return fmt.Errorf("%s hangs up on TLS: leave out --tls and --tls-ca, and unset FRESHET_TLS and FRESHET_TLS_CA, if that listener has none", at)
	}
	return fmt.Errorf("cannot talk to %s: %w", at, ExplainCertificate(err, TrustByFlag))
}

// explained is an error in words that say all there is to say: the client's own would only follow them.
type explained struct {
	words string
	cause error
}

func (e *explained) Error() string { return e.words }

func (e *explained) Unwrap() error { return e.cause }

func inWords(err error, format string, args ...any) error {
	return &explained{fmt.Sprintf(format, args...), err}
}

// explainWrite is explain for records that could not be written.
func explainWrite(topic string, err error) error {
	if errors.Is(err, kerr.KafkaStorageError) {
		return inWords(err, "an agent cannot store records of topic %q in the object store; its log names the cause", topic)
	}
	return explain(topic, err)
}

// explain says what to do about an error that a newcomer is likely to meet.
func explain(topic string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return inWords(err, "topic %q does not exist; create it with `freshet topic create %s`", topic, topic)
	case errors.Is(err, kerr.TopicAlreadyExists):
		return inWords(err, "topic %q exists already", topic)
	case errors.Is(err, kerr.MessageTooLarge):
		return inWords(err, "a record is larger than topic %q takes; raise it with `freshet topic alter %s -c max.message.bytes=…`", topic, topic)
	case errors.Is(err, kerr.OffsetOutOfRange):
		return inWords(err, "topic %q has no such offset; see `freshet topic describe %s`", topic, topic)
	case errors.Is(err, kerr.KafkaStorageError):
		return inWords(err, "an agent cannot read what topic %q has in the object store; its log tells why", topic)
	case errors.Is(err, kerr.NotLeaderForPartition):
		return inWords(err, "no agent that answers leads every partition of topic %q; /readyz of agents names what they miss", topic)
	default:
		return fmt.Errorf("topic %q: %w", topic, firstOf(err))
	}
}

// failed returns the error of a request, with the first cause if the client library sent it to several agents.
func failed(request string, err error) error {
	return fmt.Errorf("%s: %w", request, firstOf(err))
}

// firstOf returns the first error of a request that the client library sent to several agents, and any other error as it is.
func firstOf(err error) error {
	var several *kadm.ShardErrors
	if errors.As(err, &several) && len(several.Errs) > 0 {
		return several.Errs[0].Err
	}
	return err
}
