package brokerconfig

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/freshet-io/freshet/internal/topicconfig"
)

func long(n int64) string { return strconv.FormatInt(n, 10) }

// Settings are the configs that somebody set. The zero value has Kafka's defaults. Copies made with Clone are
// independent of each other.
type Settings struct {
	set map[string]string // canonical text by name
}

// Set gives a config a value. Errors have Kafka's messages and are topicconfig.ErrInvalid. What configs say of each
// other is checked by Validate.
func (s *Settings) Set(name, value string) error {
	d, ok := Lookup(name)
	if !ok {
		return topicconfig.Invalidf("Unknown broker config name: %s", name)
	}
	if d.Fixed {
		return topicconfig.Invalidf("%s cannot be set", name)
	}
	text, err := d.parse(value)
	if err != nil {
		return err
	}
	if s.set == nil {
		s.set = map[string]string{}
	}
	s.set[name] = text
	return nil
}

// parse gives a value's canonical text.
func (d *Def) parse(value string) (string, error) {
	text, err := d.Type.Parse(d.Name, value)
	if err != nil {
		return "", err
	}
	fault := func(why string) (string, error) {
		return "", topicconfig.Invalidf("Invalid value %s for configuration %s: %s", value, d.Name, why)
	}
	switch d.Type {
	case topicconfig.Int, topicconfig.Long:
		if n, _ := strconv.ParseInt(text, 10, 64); n < d.least {
			return fault(fmt.Sprintf("Value must be at least %d", d.least))
		}
	case topicconfig.String:
		if text = strings.ToLower(text); !slices.Contains(d.one, text) {
			return fault("String must be one of (case insensitive): " + strings.ToUpper(strings.Join(d.one, ", ")))
		}
	case topicconfig.List:
		return d.parseList(text, fault)
	default:
	}
	return text, nil
}

func (d *Def) parseList(text string, fault func(string) (string, error)) (string, error) {
	list := topicconfig.SplitList(text)
	if len(list) == 0 {
		return fault("Configuration '" + d.Name + "' must not be empty. Valid values include: any non-empty value")
	}
	for i, element := range list {
		switch {
		case slices.Contains(list[:i], element):
			return fault("Configuration '" + d.Name + "' values must not be duplicated")
		case !slices.Contains(d.one, element):
			return fault("there are " + strings.Join(d.one, ", "))
		}
	}
	return text, nil
}

// Value gives a config's value, as canonical text, and whether it was set. The name must be one of the table.
func (s Settings) Value(name string) (value string, set bool) {
	if value, set = s.set[name]; set {
		return value, true
	}
	d, ok := Lookup(name)
	if !ok {
		panic("brokerconfig: unknown name " + name)
	}
	return d.Default, false
}

// Text gives a config's value as canonical text.
func (s Settings) Text(name string) string {
	value, _ := s.Value(name)
	return value
}

// Texts returns the canonical text of each config that was set, by name.
func (s Settings) Texts() map[string]string { return maps.Clone(s.set) }

// Clone gives a copy that later changes do not reach.
func (s Settings) Clone() Settings { return Settings{maps.Clone(s.set)} }

// Int gives the value of an Int or a Long.
func (s Settings) Int(name string) int64 {
	text, _ := s.Value(name)
	n, _ := strconv.ParseInt(text, 10, 64) // parsed before
	return n
}

// Duration gives the value of an Int or a Long of milliseconds.
func (s Settings) Duration(name string) time.Duration {
	return time.Duration(s.Int(name)) * time.Millisecond
}

// List gives the value of a List.
func (s Settings) List(name string) []string {
	text, _ := s.Value(name)
	return topicconfig.SplitList(text)
}

// Validate tells all that configs say against each other, in Kafka's words (GroupCoordinatorConfig.validate).
func (s Settings) Validate() error {
	var errs []error
	atMost := func(least, most string) {
		if s.Int(most) < s.Int(least) {
			errs = append(errs, topicconfig.Invalidf("%s must be greater than or equal to %s", most, least))
		}
	}
	atMost(MinSessionTimeoutMs, MaxSessionTimeoutMs)
	atMost(ConsumerMinHeartbeatMs, ConsumerMaxHeartbeatMs)
	atMost(ConsumerMinHeartbeatMs, ConsumerHeartbeatIntervalMs)
	atMost(ConsumerHeartbeatIntervalMs, ConsumerMaxHeartbeatMs)
	atMost(ConsumerMinSessionMs, ConsumerMaxSessionMs)
	atMost(ConsumerMinSessionMs, ConsumerSessionTimeoutMs)
	atMost(ConsumerSessionTimeoutMs, ConsumerMaxSessionMs)
	atMost(ConsumerMinAssignmentMs, ConsumerMaxAssignmentMs)
	atMost(ConsumerMinAssignmentMs, ConsumerAssignmentIntervalMs)
	atMost(ConsumerAssignmentIntervalMs, ConsumerMaxAssignmentMs)
	if s.Int(ConsumerHeartbeatIntervalMs) >= s.Int(ConsumerSessionTimeoutMs) {
		errs = append(errs, topicconfig.Invalidf("%s must be less than %s", ConsumerHeartbeatIntervalMs, ConsumerSessionTimeoutMs))
	}
	return errors.Join(errs...)
}
