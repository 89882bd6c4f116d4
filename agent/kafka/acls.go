package kafka

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
)

// DescribeAcls, CreateAcls and DeleteAcls, keys 29 to 31, versions 1-3.
//
//	1  has resource pattern types (KIP-290)
//	2  is flexible
//	3  has users as resources (KIP-373)
//
// There is no authorizer, and the answers say so (AclApis).

const noAuthorizer = "No Authorizer is configured."

func describeACLs(*edge.Client, *kmsg.DescribeACLsRequest) *kmsg.DescribeACLsResponse {
	out := kmsg.NewPtrDescribeACLsResponse()
	out.ErrorCode, out.ErrorMessage = kerr.SecurityDisabled.Code, kmsg.StringPtr(noAuthorizer)
	return out
}

func createACLs(_ *edge.Client, in *kmsg.CreateACLsRequest) *kmsg.CreateACLsResponse {
	out := kmsg.NewPtrCreateACLsResponse()
	for range in.Creations {
		r := kmsg.NewCreateACLsResponseResult()
		r.ErrorCode, r.ErrorMessage = kerr.SecurityDisabled.Code, kmsg.StringPtr(noAuthorizer)
		out.Results = append(out.Results, r)
	}
	return out
}

func deleteACLs(_ *edge.Client, in *kmsg.DeleteACLsRequest) *kmsg.DeleteACLsResponse {
	out := kmsg.NewPtrDeleteACLsResponse()
	for range in.Filters {
		r := kmsg.NewDeleteACLsResponseResult()
		r.ErrorCode, r.ErrorMessage = kerr.SecurityDisabled.Code, kmsg.StringPtr(noAuthorizer)
		out.Results = append(out.Results, r)
	}
	return out
}
