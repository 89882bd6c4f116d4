// Package groupconfig knows the configs of groups (KIP-848, KIP-932, KIP-1071): names, defaults, bounds and Kafka's
// complaints. A group without a config of its own has the cluster's default.
//
// Configs of share and streams groups are validated, stored and shown, as in Kafka, and have no effect until these
// groups come.
package groupconfig

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/freshet-io/freshet/internal/topicconfig"
)

// Names of configs that code refers to.
const (
	ConsumerAssignmentIntervalMs = "consumer.assignment.interval.ms"
	ConsumerHeartbeatIntervalMs  = "consumer.heartbeat.interval.ms"
	ConsumerSessionTimeoutMs     = "consumer.session.timeout.ms"
)

// Def is one group config.
type Def struct {
	Name    string
	Type    topicconfig.Type
	Default string // canonical text
	// Broker is the broker config that holds the cluster's default, "" if there is none.
	Broker string
	Doc    string // a sentence

	least    int64    // smallest value of an Int whatever the broker says (ConfigDef)
	low      int64    // the broker's own bounds of an Int; both 0: none
	high     int64    // 0: none
	one      []string // values that a String can have
	duration bool     // a String that may also be by_duration:<ISO 8601>
}

// All gives every group config in the order of names. The slice is shared: do not change it.
func All() []Def { return table }

// Lookup finds a group config by name.
func Lookup(name string) (*Def, bool) {
	i, ok := slices.BinarySearchFunc(table, name, func(d Def, name string) int { return strings.Compare(d.Name, name) })
	if !ok {
		return nil, false
	}
	return &table[i], true
}

// Effective gives the value that a config has, as canonical text. The name must be one of the table.
func Effective(group map[string]string, name string) string {
	d, ok := Lookup(name)
	if !ok {
		panic("groupconfig: unknown name " + name)
	}
	if value, set := group[name]; set {
		if text, err := d.Type.Parse(name, value); err == nil {
			return text
		}
	}
	return d.Default
}

// Values are the effective configs that have meaning here.
type Values struct {
	ConsumerSessionTimeout    time.Duration
	ConsumerHeartbeatInterval time.Duration
	// ConsumerAssignmentInterval is the least time between two target assignments of a group.
	ConsumerAssignmentInterval time.Duration
}

// Resolve parses a group's effective values; nil is a group without configs of its own.
func Resolve(group map[string]string) Values {
	ms := func(name string) time.Duration { return time.Duration(integer(group, name)) * time.Millisecond }
	return Values{
		ConsumerSessionTimeout: ms(ConsumerSessionTimeoutMs), ConsumerHeartbeatInterval: ms(ConsumerHeartbeatIntervalMs),
		ConsumerAssignmentInterval: ms(ConsumerAssignmentIntervalMs),
	}
}

func integer(group map[string]string, name string) int64 {
	n, _ := strconv.ParseInt(Effective(group, name), 10, 64)
	return n
}

// Validate checks a group's own configs. Errors carry Kafka's messages (GroupConfig.validate) and are
// topicconfig.ErrInvalid.
func Validate(group map[string]string) error {
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
		if err := d.checkBounds(integer(group, name)); err != nil {
			return err
		}
	}
	for _, kind := range []string{"consumer", "share", "streams"} {
		session, heartbeat := kind+".session.timeout.ms", kind+".heartbeat.interval.ms"
		if integer(group, session) <= integer(group, heartbeat) {
			return topicconfig.Invalidf("%s must be greater than %s", session, heartbeat)
		}
	}
	return nil
}

// check is ConfigDef's part: type and validator.
func (d *Def) check(value string) error {
	text, err := d.Type.Parse(d.Name, value)
	if err != nil {
		return err
	}
	switch d.Type {
	case topicconfig.Int:
		if n, _ := strconv.ParseInt(text, 10, 64); n < d.least {
			return topicconfig.Invalidf("Invalid value %s for configuration %s: Value must be at least %d", text, d.Name, d.least)
		}
	case topicconfig.String:
		if !slices.Contains(d.one, text) && (!d.duration || !isDuration(text)) {
			return topicconfig.Invalidf("Invalid value %s for configuration %s: String must be one of: %s", text, d.Name, strings.Join(d.one, ", "))
		}
	default:
	}
	return nil
}

// checkBounds is the part that Kafka's broker configs decide.
func (d *Def) checkBounds(n int64) error {
	kind, rest, _ := strings.Cut(d.Name, ".")
	rest = strings.TrimPrefix(rest, "num.")
	switch {
	case d.low != 0 && n < d.low:
		return topicconfig.Invalidf("%s must be greater than or equal to group.%s.min.%s", d.Name, kind, rest)
	case d.high != 0 && n > d.high:
		return topicconfig.Invalidf("%s must be less than or equal to group.%s.max.%s", d.Name, kind, rest)
	}
	return nil
}
