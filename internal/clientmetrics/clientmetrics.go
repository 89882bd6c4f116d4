// Package clientmetrics knows the configs of client metrics subscriptions (KIP-714): which metrics clients are asked
// to push, how often, and which clients. A subscription is a resource with the three configs below; one without any
// config does not exist.
package clientmetrics

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/freshet-io/freshet/internal/pattern"
	"github.com/freshet-io/freshet/internal/topicconfig"
)

// Names of the configs.
const (
	Interval = "interval.ms"
	Match    = "match"
	Metrics  = "metrics"
)

// Bounds of Interval, and what applies where none is set.
const (
	MinInterval     = 100 * time.Millisecond
	MaxInterval     = time.Hour
	DefaultInterval = 5 * time.Minute
)

// Bounds. Kafka has none.
const (
	// MaxSubscriptions bounds the subscriptions of a virtual cluster.
	MaxSubscriptions = 50
	// MaxMetrics bounds the metrics of a subscription.
	MaxMetrics = 50
)

// Every is the metric name that asks for all metrics.
const Every = "*"

// ErrRequest is the base of errors that Kafka answers with INVALID_REQUEST; the others are topicconfig.ErrInvalid.
var ErrRequest = errors.New("invalid request")

// requestError is an ErrRequest whose text is shown to clients verbatim.
type requestError struct{ message string }

func (e *requestError) Error() string        { return e.message }
func (e *requestError) Is(target error) bool { return target == ErrRequest }

// Def is one config.
type Def struct {
	Name    string
	Type    topicconfig.Type
	Default string
	Doc     string
}

// All gives the configs in the order of names.
func All() []Def {
	return []Def{
		{Interval, topicconfig.Int, "300000", "How often a client pushes its metrics, in milliseconds."},
		{Match, topicconfig.List, "", "Which clients: name=regular expression, all of which must match; none is every client."},
		{Metrics, topicconfig.List, "", "Which metrics, by prefixes of their names; * is all of them, none is none."},
	}
}

// Client is what a subscription can select clients by.
type Client struct {
	InstanceID      string // UUID as Kafka writes it: URL-safe base64
	ClientID        string
	SoftwareName    string
	SoftwareVersion string
	SourceAddress   string
	SourcePort      string
}

// selectors are the names that a match can use.
var selectors = map[string]func(*Client) string{
	"client_instance_id":      func(c *Client) string { return c.InstanceID },
	"client_id":               func(c *Client) string { return c.ClientID },
	"client_software_name":    func(c *Client) string { return c.SoftwareName },
	"client_software_version": func(c *Client) string { return c.SoftwareVersion },
	"client_source_address":   func(c *Client) string { return c.SourceAddress },
	"client_source_port":      func(c *Client) string { return c.SourcePort },
}

// Subscription is a parsed resource.
type Subscription struct {
	Metrics  []string // prefixes of names, or Every
	Interval time.Duration
	match    []selector
}

type selector struct {
	name    string
	value   func(*Client) string
	pattern pattern.Pattern
}

// Budget is the work that matching one client with all subscriptions may still take: instructions of a pattern times the bytes of a value.
type Budget int

// NewBudget returns the budget for a client. It takes some 25 ms.
func NewBudget() *Budget {
	b := Budget(pattern.MaxSteps)
	return &b
}

// Matches reports whether the subscription is for the client. Once the budget is spent, no subscription with patterns is.
func (s *Subscription) Matches(c *Client, b *Budget) bool {
	for _, m := range s.match {
		value := m.value(c)
		if *b -= Budget(m.pattern.Size() * len(value)); *b < 0 || !m.pattern.Match(value) {
			return false
		}
	}
	return true
}

// Parse checks the configs of a subscription, as Kafka's ClientMetricsConfigs does. Patterns are RE2 and match the whole
// value. Each name in a match has one pattern, which bounds the time and memory of a subscription. Errors carry Kafka's messages:
// ErrRequest or topicconfig.ErrInvalid.
func Parse(name string, configs map[string]string) (*Subscription, error) {
	if name == "" {
		return nil, &requestError{"Subscription name can't be empty"}
	}
	for _, key := range slices.Sorted(maps.Keys(configs)) {
		if key != Interval && key != Match && key != Metrics {
			return nil, &requestError{"Unknown client metrics configuration: " + key}
		}
	}
	s := &Subscription{Metrics: topicconfig.SplitList(configs[Metrics]), Interval: DefaultInterval}
	if len(s.Metrics) > MaxMetrics {
		return nil, topicconfig.Invalidf("A subscription has at most %d metrics", MaxMetrics)
	}
	if value, set := configs[Interval]; set {
		if err := s.setInterval(value); err != nil {
			return nil, err
		}
	}
	for _, pattern := range topicconfig.SplitList(configs[Match]) {
		if err := s.addMatch(pattern); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Subscription) setInterval(value string) error {
	text, err := topicconfig.Int.Parse(Interval, value)
	if err != nil {
		return err
	}
	ms, _ := strconv.Atoi(text)
	s.Interval = time.Duration(ms) * time.Millisecond
	if s.Interval < MinInterval || s.Interval > MaxInterval {
		return &requestError{fmt.Sprintf("Invalid value %d for interval.ms, interval must be between 100 and 3600000 (1 hour)", ms)}
	}
	return nil
}

func (s *Subscription) addMatch(text string) error {
	name, expression, ok := strings.Cut(text, "=")
	name, expression = strings.TrimSpace(name), strings.TrimSpace(expression)
	value := selectors[name]
	twice := slices.ContainsFunc(s.match, func(m selector) bool { return m.name == name })
	if !ok || value == nil || twice || expression == "" || strings.Contains(expression, "=") {
		return topicconfig.Invalidf("Illegal client matching pattern: %s", text)
	}
	compiled, err := pattern.Compile(expression)
	if err != nil {
		return topicconfig.Invalidf("Illegal client matching pattern: %s", text)
	}
	s.match = append(s.match, selector{name, value, compiled})
	return nil
}
