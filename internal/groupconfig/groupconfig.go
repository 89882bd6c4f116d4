// Package groupconfig has the configs of groups (KIP-848, KIP-932, KIP-1071): names, defaults, bounds and Kafka's error
// messages. A group without its own value of a config has the cluster's default.
//
// Configs of share and streams groups are validated, stored and shown, as in Kafka. They have no effect, since Freshet
// has no such groups.
package groupconfig

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/freshet-io/freshet/internal/brokerconfig"
	"github.com/freshet-io/freshet/internal/topicconfig"
)

// Names of configs that code refers to.
const (
	ConsumerAssignmentIntervalMs = "consumer.assignment.interval.ms"
	ConsumerHeartbeatIntervalMs  = "consumer.heartbeat.interval.ms"
	ConsumerSessionTimeoutMs     = "consumer.session.timeout.ms"
)

// noLow marks an Int with an upper bound only (GroupConfig.validateIntMax).
const noLow = -1

// Def is one group config.
type Def struct {
	Name    string
	Type    topicconfig.Type
	Default string // canonical text
	// Broker is the broker config that holds the cluster's default, "" if there is none.
	Broker string
	Doc    string // a sentence

	least    int64    // smallest value of an Int whatever the broker configs (ConfigDef)
	low      int64    // Kafka's default of the broker config with the lower bound of an Int; noLow if no such config exists
	high     int64    // Kafka's default of the broker config with the upper bound; 0 if the Int has no bounds
	one      []string // values that a String can have
	refusal  string   // format of the error for another value; "" for that of ConfigDef.ValidString
	duration bool     // a String that may also be by_duration:<ISO 8601>
	fixed    bool     // only the default is taken, because another value needs share groups
}

// All returns every group config in the order of names. The slice is shared: do not change it.
func All() []Def { return table }

// Lookup returns the group config of a name, and reports whether it exists.
func Lookup(name string) (*Def, bool) {
	i, ok := slices.BinarySearchFunc(table, name, func(d Def, name string) int { return strings.Compare(d.Name, name) })
	if !ok {
		return nil, false
	}
	return &table[i], true
}

// Effective returns the value of a group's config as canonical text: the group's own, or the cluster's default. The name must be one of
// the table.
func Effective(group map[string]string, brokers brokerconfig.Settings, name string) string {
	d, ok := Lookup(name)
	if !ok {
		panic("groupconfig: unknown name " + name)
	}
	if value, set := group[name]; set {
		if text, err := d.Type.Parse(name, value); err == nil {
			return text
		}
	}
	return d.Fallback(brokers)
}

// Fallback returns the value for groups without their own.
func (d *Def) Fallback(brokers brokerconfig.Settings) string {
	if _, ok := brokerconfig.Lookup(d.Broker); ok {
		value, _ := brokers.Value(d.Broker)
		return value
	}
	return d.Default
}

func integer(group map[string]string, brokers brokerconfig.Settings, name string) int64 {
	n, _ := strconv.ParseInt(Effective(group, brokers, name), 10, 64)
	return n
}

// Validate checks a group's own configs by the bounds of the broker configs. Errors carry Kafka's messages (GroupConfig.validate) and are
// topicconfig.ErrInvalid.
func Validate(group map[string]string, brokers brokerconfig.Settings) error {
	names := slices.Sorted(maps.Keys(group))
	for _, name := range names {
		if _, ok := Lookup(name); !ok {
			return topicconfig.Invalidf("Unknown group config name: %s", name)
		}
	}
	for _, name := range names {
		d, _ := Lookup(name)
		if err := d.check(group[name]); err != nil {
			return err
		}
	}
	for _, name := range names {
		d, _ := Lookup(name)
		if err := d.checkBounds(integer(group, brokers, name), brokers); err != nil {
			return err
		}
	}
	for _, kind := range []string{"consumer", "share", "streams"} {
		session, heartbeat := kind+".session.timeout.ms", kind+".heartbeat.interval.ms"
		if integer(group, brokers, session) <= integer(group, brokers, heartbeat) {
			return topicconfig.Invalidf("%s must be greater than %s", session, heartbeat)
		}
	}
	return nil
}

// check checks type and values as ConfigDef does.
func (d *Def) check(value string) error {
	text, err := d.Type.Parse(d.Name, value)
	if err != nil {
		return err
	}
	switch {
	case d.fixed && text != d.Default:
		return topicconfig.Invalidf("Invalid value %s for configuration %s: Value must be the default, since there are no share groups", text, d.Name)
	case d.fixed:
		return nil
	}
	switch d.Type {
	case topicconfig.Int:
		if n, _ := strconv.ParseInt(text, 10, 64); n < d.least {
			return topicconfig.Invalidf("Invalid value %s for configuration %s: Value must be at least %d", text, d.Name, d.least)
		}
	case topicconfig.String:
		switch {
		case slices.Contains(d.one, text) || d.duration && isDuration(text):
		case d.refusal != "":
			return topicconfig.Invalidf(d.refusal, text)
		default:
			return topicconfig.Invalidf("Invalid value %s for configuration %s: String must be one of: %s", text, d.Name, strings.Join(d.one, ", "))
		}
	default:
	}
	return nil
}

// checkBounds checks an Int by the two broker configs of its bounds, or by their defaults if Freshet lacks these configs. The messages are
// those of GroupConfig.validateIntRange and validateIntMax in 4.4.0.
func (d *Def) checkBounds(n int64, brokers brokerconfig.Settings) error {
	kind, rest, _ := strings.Cut(d.Name, ".")
	least, most := fmt.Sprintf("group.%s.min.%s", kind, rest), fmt.Sprintf("group.%s.max.%s", kind, rest)
	low, high := d.low, d.high
	if _, ok := brokerconfig.Lookup(least); ok {
		low, high = brokers.Int(least), brokers.Int(most)
	}
	switch {
	case high == 0 || low <= n && n <= high:
		return nil
	case low == noLow:
		return topicconfig.Invalidf("%s must be less than or equal to %d", d.Name, high)
	}
	return topicconfig.Invalidf("%s must be in the range %d to %d inclusive.", d.Name, low, high)
}
