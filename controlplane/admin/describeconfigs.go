package admin

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/internal/forwarded"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/internal/topicconfig"
	"github.com/freshet-io/freshet/metadata"
)

// DescribeConfigs, key 32, versions 1-4.
//
//	1  has synonyms and sources
//	3  has documentation and types
//	4  is flexible

func (c *call) describeConfigs(ctx context.Context, in *kmsg.DescribeConfigsRequest) (*kmsg.DescribeConfigsResponse, error) {
	out := kmsg.NewPtrDescribeConfigsResponse()
	err := c.read(func(s *metadata.State) error {
		size := session.AnswerOf(ctx)
		known := map[describedResource]described{}
		for i := range in.Resources {
			key := describedAs(&in.Resources[i])
			d, twice := known[key]
			if !twice {
				d.answer = c.describeResource(s, in, &in.Resources[i])
				d.bytes = forwarded.EncodedBytes(&kmsg.DescribeConfigsResponse{Resources: []kmsg.DescribeConfigsResponseResource{d.answer}}, in.Version)
				known[key] = d
			}
			if err := size.Add(d.bytes); err != nil {
				return err
			}
			out.Resources = append(out.Resources, d.answer)
		}
		return nil
	})
	return out, err
}

// describedResource identifies an element of a request. Equal elements have equal answers. Kafka answers each (ConfigHelper.describeConfigs).
type describedResource struct {
	resource
	configs string // the wanted names, each after its length
}

// described is the answer to one element, and its size.
type described struct {
	answer kmsg.DescribeConfigsResponseResource
	bytes  int
}

func describedAs(r *kmsg.DescribeConfigsRequestResource) describedResource {
	var names []byte
	for _, name := range r.ConfigNames {
		names = append(binary.AppendUvarint(names, uint64(len(name))), name...)
	}
	return describedResource{resource{r.ResourceType, r.ResourceName}, string(names)}
}

func (c *call) describeResource(s *metadata.State, in *kmsg.DescribeConfigsRequest, r *kmsg.DescribeConfigsRequestResource) kmsg.DescribeConfigsResponseResource {
	out := kmsg.NewDescribeConfigsResponseResource()
	out.ResourceType, out.ResourceName = r.ResourceType, r.ResourceName
	out.Configs = []kmsg.DescribeConfigsResponseResourceConfig{}
	d := configDescriber{
		wanted: r.ConfigNames, synonyms: in.IncludeSynonyms, documentation: in.IncludeDocumentation,
		brokers: s.Configs(metadata.ConfigBroker, ""), listener: c.forward.Listener,
		// Older agents do not send it. Their default is true.
		autoCreate: c.forward.AutoCreateTopics == nil || *c.forward.AutoCreateTopics,
	}
	var fault *apiError
	switch r.ResourceType {
	case kmsg.ConfigResourceTypeTopic:
		fault = d.topic(s, r.ResourceName)
	case kmsg.ConfigResourceTypeBroker:
		fault = d.broker(c.APIs, s, r.ResourceName)
	case kmsg.ConfigResourceTypeBrokerLogger:
		fault = d.logger(s, r.ResourceName)
	case kmsg.ConfigResourceTypeGroupConfig:
		fault = d.group(c.APIs, s, r.ResourceName)
	case kmsg.ConfigResourceTypeClientMetrics:
		fault = d.clientMetrics(s, r.ResourceName)
	default:
		fault = failed(kerr.InvalidRequest, fmt.Sprintf("Unsupported resource type: %s", r.ResourceType))
	}
	out.ErrorCode, out.ErrorMessage = fault.code(), fault.text()
	if fault == nil {
		out.Configs = append(out.Configs, d.out...)
	}
	return out
}

// configDescriber gathers the configs of one resource.
type configDescriber struct {
	wanted                  []string // names; none is all
	synonyms, documentation bool
	brokers                 map[string]string // the cluster's defaults set by command
	autoCreate              bool
	listener                string // of the client
	out                     []kmsg.DescribeConfigsResponseResourceConfig
}

func (d *configDescriber) wants(name string) bool {
	return len(d.wanted) == 0 || slices.Contains(d.wanted, name)
}

func (d *configDescriber) topic(s *metadata.State, name string) *apiError {
	if fault := checkTopicName(name); fault != nil {
		return fault
	}
	t, ok := shownTopic(s, name)
	if !ok {
		return plain(kerr.UnknownTopicOrPartition)
	}
	for i := range topicconfig.All() {
		def := &topicconfig.All()[i]
		if !d.wants(def.Name) {
			continue
		}
		entry := d.entry(def.Name, topicconfig.Effective(t.Configs, d.brokers, def.Name), def.Type, def.Doc+" "+effectDoc(def.Effect))
		var synonyms []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym
		if _, set := t.Configs[def.Name]; set {
			synonyms = append(synonyms, synonym(def.Name, *entry.Value, kmsg.ConfigSourceDynamicTopicConfig))
		}
		d.add(entry, append(synonyms, d.brokerSynonyms(def)...))
	}
	return nil
}

// effectDoc returns the effect of setting a config.
func effectDoc(e topicconfig.Effect) string {
	if e == topicconfig.Active {
		return "Takes effect at once."
	}
	return "Accepted without effect."
}

// brokerSynonyms returns the sources of a topic config's default. The first one has effect.
func (d *configDescriber) brokerSynonyms(def *topicconfig.Def) []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym {
	var synonyms []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym
	if def.Broker == "" {
		return nil
	}
	if value, set := d.brokers[def.Broker]; set {
		synonyms = append(synonyms, synonym(def.Broker, value, kmsg.ConfigSourceDynamicDefaultBrokerConfig))
	}
	if !def.BrokerUnset {
		synonyms = append(synonyms, synonym(def.Broker, def.Default, kmsg.ConfigSourceDefaultConfig))
	}
	return synonyms
}

func synonym(name, value string, source kmsg.ConfigSource) kmsg.DescribeConfigsResponseResourceConfigConfigSynonym {
	s := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
	s.Name, s.Value, s.Source = name, &value, source
	return s
}

// broker describes one node, or the cluster's defaults that were set ("").
func (d *configDescriber) broker(a *APIs, s *metadata.State, name string) *apiError {
	var node *describedNode
	if name != "" {
		number, err := strconv.ParseInt(name, 10, 32)
		if err != nil {
			return failed(kerr.InvalidRequest, "Broker id must be an integer, but it is: "+name)
		}
		zone, ok := zoneOf(s, int32(number))
		if !ok {
			return failed(kerr.InvalidRequest, "Unexpected broker id, there is no such broker: "+name)
		}
		node = &describedNode{id: int32(number), rack: zone, autoCreate: d.autoCreate}
		if member, ok := memberOf(s, node.id); ok {
			if at := member.Endpoints[slices.Index(member.NodeIDs, node.id)]; at.Listener == d.listener {
				node.listener, node.address = at.Listener, net.JoinHostPort(at.Host, strconv.Itoa(int(at.Port)))
			}
		}
	}
	for _, c := range a.brokerConfigs(node) {
		if _, set := d.brokers[c.name]; d.wants(c.name) && (node != nil || set) {
			d.brokerEntry(&c)
		}
	}
	return nil
}

func (d *configDescriber) brokerEntry(c *brokerConfig) {
	value := c.value
	if set, ok := d.brokers[c.name]; ok {
		value = set
	}
	entry := d.entry(c.name, value, c.kind, c.doc)
	entry.ReadOnly = c.fallback == nil
	switch {
	case c.fallback != nil:
		d.add(entry, d.brokerSynonyms(c.fallback))
	case c.static:
		synonyms := []configSynonym{synonym(c.name, value, kmsg.ConfigSourceStaticBrokerConfig)}
		if c.base != "" {
			synonyms = append(synonyms, synonym(c.name, c.base, kmsg.ConfigSourceDefaultConfig))
		}
		d.add(entry, synonyms)
	default:
		d.add(entry, []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{synonym(c.name, value, kmsg.ConfigSourceDefaultConfig)})
	}
}

func (d *configDescriber) entry(name, value string, kind topicconfig.Type, doc string) kmsg.DescribeConfigsResponseResourceConfig {
	entry := kmsg.NewDescribeConfigsResponseResourceConfig()
	entry.Name, entry.Value, entry.ConfigType = name, &value, kmsg.ConfigType(kind)
	if d.documentation {
		entry.Documentation = &doc
	}
	return entry
}

// add appends an entry whose source is that of its first synonym, as Kafka has it.
func (d *configDescriber) add(entry kmsg.DescribeConfigsResponseResourceConfig, synonyms []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym) {
	entry.Source = kmsg.ConfigSourceDefaultConfig
	if len(synonyms) > 0 {
		entry.Source = synonyms[0].Source
	}
	entry.IsDefault = entry.Source == kmsg.ConfigSourceDefaultConfig
	if d.synonyms {
		entry.ConfigSynonyms = synonyms
	}
	d.out = append(d.out, entry)
}
