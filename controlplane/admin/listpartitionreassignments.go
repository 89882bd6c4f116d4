package admin

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ListPartitionReassignments, key 46, version 0 (KIP-455). None is ever under way (see AlterPartitionReassignments).

func (c *call) listPartitionReassignments(context.Context, *kmsg.ListPartitionReassignmentsRequest) (*kmsg.ListPartitionReassignmentsResponse, error) {
	return kmsg.NewPtrListPartitionReassignmentsResponse(), nil
}
