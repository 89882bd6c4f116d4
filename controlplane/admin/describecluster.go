package admin

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/metadata"
)

// DescribeCluster, key 60, versions 0-2 (KIP-700). All are flexible.
//
//	1  asks for brokers or controllers (KIP-919)
//	2  may ask for fenced brokers too; there are none (KIP-1073)

const (
	brokerEndpoints     = int8(1)
	controllerEndpoints = int8(2)
	// allClusterOperations are those of a principal without restrictions: create, alter, describe, cluster action,
	// describe configs, alter configs, idempotent write.
	allClusterOperations = 1<<5 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12
	// allTopicOperations: read, write, create, delete, alter, describe, describe configs, alter configs.
	allTopicOperations = 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<11
)

func (c *call) describeCluster(_ context.Context, in *kmsg.DescribeClusterRequest) (*kmsg.DescribeClusterResponse, error) {
	out := kmsg.NewPtrDescribeClusterResponse()
	if in.EndpointType != brokerEndpoints && in.EndpointType != controllerEndpoints {
		out.ErrorCode = kerr.UnsupportedEndpointType.Code
		out.ErrorMessage = kmsg.StringPtr(fmt.Sprintf("Unsupported endpoint type %d", in.EndpointType))
		return out, nil
	}
	if in.EndpointType != brokerEndpoints {
		out.ErrorCode = kerr.MismatchedEndpointType.Code
		out.ErrorMessage = kmsg.StringPtr("The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER")
		return out, nil
	}
	out.EndpointType = brokerEndpoints
	out.ControllerID = -1
	out.Brokers = []kmsg.DescribeClusterResponseBroker{}
	_, err := c.owner.Read(func(s *metadata.State) {
		out.ClusterID = s.ClusterID()
		v := viewOf(s, c.forward)
		for _, n := range v.brokers() {
			b := kmsg.NewDescribeClusterResponseBroker()
			b.NodeID, b.Host, b.Port = n.ID, n.Host, n.Port
			if n.Zone != "" {
				b.Rack = &n.Zone
			}
			out.Brokers = append(out.Brokers, b)
		}
	})
	if len(out.Brokers) > 0 {
		out.ControllerID = out.Brokers[0].NodeID // any agent takes admin requests
	}
	if in.IncludeClusterAuthorizedOperations {
		out.ClusterAuthorizedOperations = allClusterOperations
	}
	return out, err
}
