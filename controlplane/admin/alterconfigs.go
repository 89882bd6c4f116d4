package admin

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// AlterConfigs, key 33, versions 0-2. Deprecated in Kafka for IncrementalAlterConfigs: it replaces a resource's
// configs, and those that it does not name return to their defaults.
//
//	2  is flexible

func (c *call) alterConfigs(ctx context.Context, in *kmsg.AlterConfigsRequest) (*kmsg.AlterConfigsResponse, error) {
	changes := make([]*configChange, len(in.Resources))
	for i, r := range in.Resources {
		changes[i] = &configChange{resource: resource{r.ResourceType, r.ResourceName}, replace: true}
		for _, config := range r.Configs {
			changes[i].ops = append(changes[i].ops, configOp{config.Name, kmsg.IncrementalAlterConfigOpSet, config.Value})
		}
	}
	err := c.changeConfigs(ctx, changes, in.ValidateOnly)
	out := kmsg.NewPtrAlterConfigsResponse()
	for _, change := range changes {
		r := kmsg.NewAlterConfigsResponseResource()
		r.ResourceType, r.ResourceName = change.kind, change.name
		r.ErrorCode, r.ErrorMessage = change.err.code(), change.err.text()
		out.Resources = append(out.Resources, r)
	}
	return out, err
}
