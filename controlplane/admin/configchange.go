package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/internal/clientmetrics"
	"github.com/freshet-io/freshet/internal/groupconfig"
	"github.com/freshet-io/freshet/internal/topicconfig"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// maxConfigValue is the longest value that a config can have, in bytes. Appending to a list makes no longer one either
// (ConfigurationControlManager.validateAlterConfig).
const maxConfigValue = 1<<15 - 1

// resource is a resource whose configs a request changes.
type resource struct {
	kind kmsg.ConfigResourceType
	name string
}

// configOp is one change of one config. value is nil only for deletions.
type configOp struct {
	name  string
	op    kmsg.IncrementalAlterConfigOp
	value *string
}

// configChange is the change of one resource, and its outcome.
type configChange struct {
	resource
	ops     []configOp
	replace bool // configs not named return to their defaults (AlterConfigs)
	err     *apiError
	command *metadata.SetConfigs
}

// changeConfigs checks and makes the changes, each resource by itself, and leaves the errors in them.
func (c *call) changeConfigs(ctx context.Context, changes []*configChange, validateOnly bool) error {
	markDuplicates(changes)
	markSubscriptions(changes)
	return c.change(ctx, func() error {
		err := c.read(func(s *metadata.State) error {
			subscriptions := 0
			for range s.ConfiguredNames(metadata.ConfigClientMetrics) {
				subscriptions++
			}
			for _, change := range changes {
				if change.err == nil {
					change.err = change.check(c.APIs, s, &subscriptions)
				}
			}
			return nil
		})
		if err != nil || validateOnly {
			return err
		}
		var commands []metadata.Command
		var places []*configChange
		for _, change := range changes {
			if change.err == nil && change.command != nil {
				commands, places = append(commands, change.command), append(places, change)
			}
		}
		results, err := c.propose(ctx, commands...)
		for i, r := range results {
			places[i].err = commandError(r.Err)
		}
		return err
	})
}

func markDuplicates(changes []*configChange) {
	count := map[resource]int{}
	for _, change := range changes {
		count[change.resource]++
	}
	for _, change := range changes {
		if count[change.resource] > 1 {
			change.err = failed(kerr.InvalidRequest, "Each resource must appear at most once.")
		}
	}
}

// maxSubscriptions bounds the client metrics subscriptions that one request changes. To compile the patterns of one takes up to 1 s.
const maxSubscriptions = 10

// markSubscriptions refuses the changes of subscriptions if there are too many.
func markSubscriptions(changes []*configChange) {
	var all []*configChange
	for _, change := range changes {
		if change.kind == kmsg.ConfigResourceTypeClientMetrics && change.err == nil {
			all = append(all, change)
		}
	}
	if len(all) <= maxSubscriptions {
		return
	}
	for _, change := range all {
		change.err = failed(kerr.PolicyViolation, fmt.Sprintf("A request changes at most %d client metrics subscriptions.", maxSubscriptions))
	}
}

// check finds the resource, applies the operations to its configs, validates the outcome, and leaves the command; no
// command if nothing changes. subscriptions is the number of client metrics subscriptions so far.
func (ch *configChange) check(a *APIs, s *metadata.State, subscriptions *int) *apiError {
	if fault := ch.checkForm(); fault != nil {
		return fault
	}
	before, topic, fault := ch.find(s)
	if fault != nil {
		return fault
	}
	brokers := s.Configs(metadata.ConfigBroker, "")
	after := map[string]string{}
	if !ch.replace {
		maps.Copy(after, before)
	}
	for _, op := range ch.ops {
		if fault := ch.apply(op, before, after, brokers); fault != nil {
			return fault
		}
	}
	if fault := ch.validate(a, after, brokers); fault != nil {
		return fault
	}
	if ch.kind == kmsg.ConfigResourceTypeClientMetrics && len(before) == 0 && len(after) > 0 {
		*subscriptions++
		if *subscriptions > clientmetrics.MaxSubscriptions {
			return failed(kerr.PolicyViolation, fmt.Sprintf("There are at most %d client metrics subscriptions.", clientmetrics.MaxSubscriptions))
		}
	}
	ch.command = setConfigs(ch.resource, topic, before, after)
	return nil
}

// checkForm makes the checks that need no state.
func (ch *configChange) checkForm() *apiError {
	seen := map[string]bool{}
	var null []string
	for _, op := range ch.ops {
		if seen[op.name] {
			return failed(kerr.InvalidRequest, "Error due to duplicate config keys")
		}
		seen[op.name] = true
		if op.value == nil && op.op != kmsg.IncrementalAlterConfigOpDelete {
			null = append(null, op.name)
		}
		if op.value != nil && len(*op.value) > maxConfigValue {
			return valueTooLong()
		}
	}
	if len(null) > 0 {
		return failed(kerr.InvalidRequest, "Null value not supported for : "+strings.Join(null, ","))
	}
	return nil
}

func valueTooLong() *apiError {
	return failed(kerr.InvalidConfig, "The configuration value cannot be added because it exceeds the maximum value size of "+
		strconv.Itoa(maxConfigValue)+" bytes.")
}

// find returns the configs that the resource has now.
func (ch *configChange) find(s *metadata.State) (before map[string]string, topic id.Topic, fault *apiError) {
	switch ch.kind {
	case kmsg.ConfigResourceTypeTopic:
		if fault := checkTopicName(ch.name); fault != nil {
			return nil, topic, fault
		}
		if fault := fixed(s, ch.name); fault != nil {
			return nil, topic, fault
		}
		t, ok := s.TopicByName(ch.name)
		if !ok {
			return nil, topic, failed(kerr.UnknownTopicOrPartition, fmt.Sprintf("The topic '%s' does not exist.", ch.name))
		}
		return t.Configs, t.ID, nil
	case kmsg.ConfigResourceTypeBroker:
		if ch.name != "" {
			return nil, topic, failed(kerr.InvalidRequest, "Configs of a single broker cannot be set: agents come and go. Set the cluster's default.")
		}
		return s.Configs(metadata.ConfigBroker, ""), topic, nil
	case kmsg.ConfigResourceTypeGroupConfig:
		if ch.name == "" {
			return nil, topic, failed(kerr.InvalidRequest, "Default group resources are not allowed.")
		}
		return s.Configs(metadata.ConfigGroup, ch.name), topic, nil
	case kmsg.ConfigResourceTypeClientMetrics:
		return s.Configs(metadata.ConfigClientMetrics, ch.name), topic, nil
	case kmsg.ConfigResourceTypeBrokerLogger:
		return nil, topic, ch.loggerFault(s)
	default:
		return nil, topic, failed(kerr.InvalidRequest, fmt.Sprintf("Unknown resource type %d", ch.kind))
	}
}

// loggerFault refuses to change loggers: agents have none by name (ConfigAdminManager.validateLogLevelConfigs).
func (ch *configChange) loggerFault(s *metadata.State) *apiError {
	node, err := strconv.ParseInt(ch.name, 10, 32)
	if err != nil {
		return failed(kerr.InvalidRequest, "Node id must be an integer, but it is: "+ch.name)
	}
	if _, ok := memberOf(s, int32(node)); !ok {
		return failed(kerr.InvalidRequest, "Unexpected node id, there is no such node: "+ch.name)
	}
	for _, op := range ch.ops {
		return failed(kerr.InvalidConfig, fmt.Sprintf("Logger %s does not exist!", op.name))
	}
	return nil
}

// def finds the table entry of a config of the resource. Only topics' and brokers' lists can be appended to, as in
// Kafka (KafkaConfigSchema).
func (r resource) def(name string) (*topicconfig.Def, bool) {
	switch r.kind {
	case kmsg.ConfigResourceTypeBroker:
		return topicconfig.LookupBroker(name)
	case kmsg.ConfigResourceTypeTopic:
		return topicconfig.Lookup(name)
	default:
		return nil, false
	}
}

// apply makes one operation.
func (ch *configChange) apply(op configOp, before, after, brokers map[string]string) *apiError {
	switch op.op {
	case kmsg.IncrementalAlterConfigOpSet:
		after[op.name] = *op.value
	case kmsg.IncrementalAlterConfigOpDelete:
		delete(after, op.name)
	case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
		d, ok := ch.def(op.name)
		if ok && d.Type != topicconfig.List || !ok {
			return failed(kerr.InvalidConfig, fmt.Sprintf("Can't %s to key %s because its type is not LIST.", op.op, op.name))
		}
		list, elements := topicconfig.SplitList(ch.current(d, before, brokers)), strings.Split(*op.value, ",")
		if op.op == kmsg.IncrementalAlterConfigOpAppend {
			list = appended(list, elements)
		} else {
			list = subtracted(list, elements)
		}
		after[op.name] = strings.Join(list, ",")
		if len(after[op.name]) > maxConfigValue {
			return valueTooLong()
		}
	default:
		return failed(kerr.InvalidRequest, fmt.Sprintf("Unknown operations type %d", op.op))
	}
	return nil
}

// appended returns the list with the elements that it lacks.
func appended(list, elements []string) []string {
	there := make(map[string]bool, len(list)+len(elements))
	for _, e := range list {
		there[e] = true
	}
	for _, e := range elements {
		if !there[e] {
			there[e], list = true, append(list, e)
		}
	}
	return list
}

// subtracted returns the list without the elements. Each element takes its first occurrence out.
func subtracted(list, elements []string) []string {
	out := make(map[string]int, len(elements)) // occurrences to take out
	for _, e := range elements {
		out[e]++
	}
	return slices.DeleteFunc(list, func(e string) bool {
		if out[e] == 0 {
			return false
		}
		out[e]--
		return true
	})
}

// current returns the value that elements are added to or taken from: the one set, else the default.
func (ch *configChange) current(d *topicconfig.Def, before, brokers map[string]string) string {
	if ch.kind == kmsg.ConfigResourceTypeBroker {
		return topicconfig.Effective(nil, before, d.Name)
	}
	return topicconfig.Effective(before, brokers, d.Name)
}

// validate checks the whole outcome.
func (ch *configChange) validate(a *APIs, after, brokers map[string]string) *apiError {
	switch ch.kind {
	case kmsg.ConfigResourceTypeTopic:
		return invalidConfig(topicconfig.Validate(after, brokers))
	case kmsg.ConfigResourceTypeGroupConfig:
		return invalidConfig(groupconfig.Validate(after, a.cfg.Broker))
	case kmsg.ConfigResourceTypeClientMetrics:
		_, err := clientmetrics.Parse(ch.name, after)
		if errors.Is(err, clientmetrics.ErrRequest) {
			return failed(kerr.InvalidRequest, err.Error())
		}
		return invalidConfig(err)
	default:
		return a.validateBroker(after)
	}
}

func invalidConfig(err error) *apiError {
	if err == nil {
		return nil
	}
	return failed(kerr.InvalidConfig, err.Error())
}

// validateBroker checks the cluster's defaults. Bad values are INVALID_REQUEST, as in Kafka (DynamicBrokerConfig).
func (a *APIs) validateBroker(after map[string]string) *apiError {
	for _, name := range slices.Sorted(maps.Keys(after)) {
		d, ok := topicconfig.LookupBroker(name)
		if !ok && a.staticBrokerConfig(name) {
			return failed(kerr.InvalidRequest, fmt.Sprintf("Cannot update these configs dynamically: [%s]", name))
		}
		if !ok {
			return failed(kerr.InvalidConfig, "Unknown broker config name: "+name)
		}
		if _, err := d.NormalizeBroker(after[name]); err != nil {
			return failed(kerr.InvalidRequest, err.Error())
		}
	}
	if err := topicconfig.Validate(nil, after); err != nil {
		return failed(kerr.InvalidRequest, err.Error())
	}
	return nil
}

// setConfigs returns the command that takes the resource from before to after, or nil if they are equal.
func setConfigs(r resource, topic id.Topic, before, after map[string]string) *metadata.SetConfigs {
	if maps.Equal(before, after) {
		return nil
	}
	command := &metadata.SetConfigs{Resource: metadata.ConfigResource(r.kind), Topic: topic, Set: map[string]string{}}
	if r.kind != kmsg.ConfigResourceTypeTopic {
		command.Name = r.name
	}
	for name, value := range after {
		if old, ok := before[name]; !ok || old != value {
			command.Set[name] = value
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, ok := after[name]; !ok {
			command.Delete = append(command.Delete, name)
		}
	}
	return command
}
