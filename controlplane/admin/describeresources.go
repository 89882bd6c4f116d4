package admin

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/internal/brokerconfig"
	"github.com/freshet-io/freshet/internal/clientmetrics"
	"github.com/freshet-io/freshet/internal/groupconfig"
	"github.com/freshet-io/freshet/metadata"
)

// The resources of DescribeConfigs that are neither topics nor brokers.

type configSynonym = kmsg.DescribeConfigsResponseResourceConfigConfigSynonym

// group describes a group's configs; a group need not exist for that.
func (d *configDescriber) group(a *APIs, s *metadata.State, name string) *apiError {
	if name == "" {
		return failed(kerr.InvalidRequest, "Group name must not be empty")
	}
	set := s.Configs(metadata.ConfigGroup, name)
	for i := range groupconfig.All() {
		def := &groupconfig.All()[i]
		if !d.wants(def.Name) {
			continue
		}
		entry := d.entry(def.Name, groupconfig.Effective(set, a.cfg.Broker, def.Name), def.Type, def.Doc)
		var synonyms []configSynonym
		if _, own := set[def.Name]; own {
			synonyms = append(synonyms, synonym(def.Name, *entry.Value, kmsg.ConfigSourceGroupConfig))
		}
		d.add(entry, append(synonyms, groupSynonyms(a.cfg.Broker, def)...))
	}
	return nil
}

// groupSynonyms gives where a group config's default comes from, first what wins.
func groupSynonyms(brokers brokerconfig.Settings, def *groupconfig.Def) []configSynonym {
	if def.Broker == "" {
		return []configSynonym{synonym(def.Name, def.Default, kmsg.ConfigSourceDefaultConfig)}
	}
	fallback := []configSynonym{synonym(def.Broker, def.Default, kmsg.ConfigSourceDefaultConfig)}
	if _, ok := brokerconfig.Lookup(def.Broker); !ok {
		return fallback
	}
	if value, set := brokers.Value(def.Broker); set {
		return append([]configSynonym{synonym(def.Broker, value, kmsg.ConfigSourceStaticBrokerConfig)}, fallback...)
	}
	return fallback
}

// clientMetrics describes a subscription; one that does not exist has the defaults.
func (d *configDescriber) clientMetrics(s *metadata.State, name string) *apiError {
	if name == "" {
		return failed(kerr.InvalidRequest, "Client metrics subscription name must not be empty")
	}
	set := s.Configs(metadata.ConfigClientMetrics, name)
	for _, def := range clientmetrics.All() {
		if !d.wants(def.Name) {
			continue
		}
		value, own := set[def.Name]
		var synonyms []configSynonym
		if own {
			synonyms = append(synonyms, synonym(def.Name, value, kmsg.ConfigSourceClientMetricsConfig))
		} else {
			value = def.Default
		}
		d.add(d.entry(def.Name, value, def.Type, def.Doc), synonyms)
	}
	return nil
}

// logger describes a node's loggers, of which there are none: an agent has one level, by flag.
func (d *configDescriber) logger(s *metadata.State, name string) *apiError {
	if name == "" {
		return failed(kerr.InvalidRequest, "Broker id must not be empty")
	}
	node, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return failed(kerr.InvalidRequest, "Broker id must be an integer, but it is: "+name)
	}
	if _, ok := zoneOf(s, int32(node)); !ok {
		return failed(kerr.InvalidRequest, "Unexpected broker id, there is no such broker: "+name)
	}
	return nil
}
