package admin

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// IncrementalAlterConfigs, key 44, versions 0-1 (KIP-339).
//
//	1  is flexible
//
// Operations: SET, DELETE (back to the default), and APPEND and SUBTRACT for configs that are lists.

func (c *call) incrementalAlterConfigs(ctx context.Context, in *kmsg.IncrementalAlterConfigsRequest) (*kmsg.IncrementalAlterConfigsResponse, error) {
	changes := make([]*configChange, len(in.Resources))
	for i, r := range in.Resources {
		changes[i] = &configChange{resource: resource{r.ResourceType, r.ResourceName}}
		for _, config := range r.Configs {
			changes[i].ops = append(changes[i].ops, configOp{config.Name, config.Op, config.Value})
		}
	}
	err := c.changeConfigs(ctx, changes, in.ValidateOnly)
	out := kmsg.NewPtrIncrementalAlterConfigsResponse()
	for _, change := range changes {
		r := kmsg.NewIncrementalAlterConfigsResponseResource()
		r.ResourceType, r.ResourceName = change.kind, change.name
		r.ErrorCode, r.ErrorMessage = change.err.code(), change.err.text()
		out.Resources = append(out.Resources, r)
	}
	return out, err
}
