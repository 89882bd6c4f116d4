package verify

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Config of a run. ApplyDefaults gives zero fields the values named.
type Config struct {
	Bootstrap []string         // host:port of brokers; localhost:9092
	Options   func() []kgo.Opt // further options (TLS, SASL), made anew for each client: franz-go changes some; may be nil
	Prefix    string           // of the names of topics, groups and transactional ids; "freshet-verify"
	Keep      bool             // leave topics and groups behind

	Duration     time.Duration // of producing; 10 minutes. The end of the context ends it earlier
	Patience     time.Duration // how long what is there may take to be read, and open transactions to end, afterwards; 1 minute
	Rate         float64       // records a second, of all producers; 1000
	Size         int           // bytes of a value, at least 40; 200
	Producers    int           // of each topic; 4
	Keys         int           // of each producer in each partition; 10
	Partitions   int           // of each topic; 12
	Replication  int           // of topics; -1, what the cluster does by default
	Groups       int           // for each topic; 2, every other one of cooperative members
	Members      int           // of each group; 3
	NextGen      bool          // one more group for each topic, of the consumer protocol (KIP-848)
	Churn        time.Duration // how long members stay, on average, before they leave and come back; 30 s
	Transactions bool          // a second topic, to which transactional producers write
	Aborts       float64       // share of transactions that are aborted; 0.25
	Plain        bool          // producers of the first topic are not idempotent: duplicates are counted, not faults
	Seed         uint64        // of everything that is chosen at random; 0: by the clock, printed

	Progress time.Duration // between two lines of progress; 10 s
	JSON     bool          // the report as JSON
	Out      io.Writer     // the report, and without JSON progress and findings as they come
	Err      io.Writer     // with JSON, progress and findings as they come
}

// ApplyDefaults fills in what is not set.
func (c *Config) ApplyDefaults() {
	if len(c.Bootstrap) == 0 {
		c.Bootstrap = []string{"localhost:9092"}
	}
	or(&c.Prefix, "freshet-verify")
	or(&c.Duration, 10*time.Minute)
	or(&c.Patience, time.Minute)
	or(&c.Rate, 1000)
	or(&c.Size, 200)
	or(&c.Producers, 4)
	or(&c.Keys, 10)
	or(&c.Partitions, 12)
	or(&c.Replication, -1)
	or(&c.Groups, 2)
	or(&c.Members, 3)
	or(&c.Churn, 30*time.Second)
	or(&c.Aborts, 0.25)
	or(&c.Progress, 10*time.Second)
	if c.Options == nil {
		c.Options = func() []kgo.Opt { return nil }
	}
	if c.Out == nil {
		c.Out = io.Discard
	}
	if c.Err == nil {
		c.Err = io.Discard
	}
}

func or[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate gives all faults at once.
func (c *Config) Validate() error {
	var faults []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	for _, n := range []struct {
		name        string
		value       int
		least, most int
	}{
		{"size", c.Size, 40, 1 << 20},
		{"producers", c.Producers, 1, 1000},
		{"keys", c.Keys, 1, 1 << 30},
		{"partitions", c.Partitions, 1, 10_000},
		{"groups", c.Groups, 0, 100},
		{"members", c.Members, 1, 100},
	} {
		bad(n.value < n.least || n.value > n.most, "%s is %d, want %d to %d", n.name, n.value, n.least, n.most)
	}
	bad(c.Prefix == "", "prefix is empty")
	bad(c.Rate <= 0, "rate is %v records a second, want more than 0", c.Rate)
	bad(c.Aborts < 0 || c.Aborts > 1, "aborts is %v, want 0 to 1", c.Aborts)
	bad(c.Replication == 0 || c.Replication < -1, "replication is %d, want -1 (the cluster's default) or more than 0", c.Replication)
	for name, d := range map[string]time.Duration{
		"duration": c.Duration, "patience": c.Patience, "churn": c.Churn, "progress": c.Progress,
	} {
		bad(d <= 0, "%s is %v, want more than 0", name, d)
	}
	return errors.Join(faults...)
}
