package admin

import (
	"context"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/metadata"
)

// ListConfigResources, key 74, versions 0-1 (KIP-714, KIP-1142). All are flexible.
//
//	0  lists client metrics subscriptions (ListClientMetricsResources)
//	1  names the types of resources; none is all
//
// Groups and client metrics subscriptions are resources while they have a config.

func (c *call) listConfigResources(ctx context.Context, in *kmsg.ListConfigResourcesRequest) (*kmsg.ListConfigResourcesResponse, error) {
	out := kmsg.NewPtrListConfigResourcesResponse()
	types := make([]kmsg.ConfigResourceType, 0, len(in.ResourceTypes))
	for _, t := range in.ResourceTypes {
		types = append(types, kmsg.ConfigResourceType(t))
	}
	switch {
	case in.Version == 0:
		types = []kmsg.ConfigResourceType{kmsg.ConfigResourceTypeClientMetrics}
	case len(types) == 0:
		types = listedResources
	case slices.ContainsFunc(types, func(t kmsg.ConfigResourceType) bool { return !slices.Contains(listedResources, t) }):
		out.ErrorCode = kerr.UnsupportedVersion.Code
		return out, nil
	}
	err := c.read(func(s *metadata.State) (err error) {
		size := session.AnswerOf(ctx)
		for _, t := range listedResources {
			if slices.Contains(types, t) {
				c.listResources(s, t, func(name string) {
					if err = size.Add(len(name)); err == nil {
						r := kmsg.NewListConfigResourcesResponseConfigResource()
						r.Name, r.Type = name, int8(t)
						out.ConfigResources = append(out.ConfigResources, r)
					}
				})
			}
		}
		return err
	})
	return out, err
}

// listedResources are the types that can be asked for, in the order of answers.
var listedResources = []kmsg.ConfigResourceType{
	kmsg.ConfigResourceTypeGroupConfig, kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeBrokerLogger,
	kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeTopic,
}

func (c *call) listResources(s *metadata.State, t kmsg.ConfigResourceType, add func(name string)) {
	switch t {
	case kmsg.ConfigResourceTypeTopic:
		for topic := range s.Topics() {
			add(topic.Name)
		}
	case kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger:
		v := viewOf(s, c.forward)
		for _, n := range v.brokers() {
			add(strconv.Itoa(int(n.ID)))
		}
	case kmsg.ConfigResourceTypeClientMetrics:
		for name := range s.ConfiguredNames(metadata.ConfigClientMetrics) {
			add(name)
		}
	case kmsg.ConfigResourceTypeGroupConfig:
		for name := range s.ConfiguredNames(metadata.ConfigGroup) {
			add(name)
		}
	default: // listedResources are all there are
	}
}
