package kafka

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestErrorCodes(t *testing.T) {
	produce := kmsg.NewPtrProduceResponse()
	produce.Topics = []kmsg.ProduceResponseTopic{{Partitions: []kmsg.ProduceResponseTopicPartition{{ErrorCode: 6}, {}, {ErrorCode: 10}}}}
	require.Equal(t, []int16{6, 10}, errorCodes(produce))

	created := kmsg.NewPtrCreateTopicsResponse()
	created.Topics = []kmsg.CreateTopicsResponseTopic{{ErrorCode: 36}, {}}
	require.Equal(t, []int16{36}, errorCodes(created))

	epochs := kmsg.NewPtrOffsetForLeaderEpochResponse()
	epochs.Topics = []kmsg.OffsetForLeaderEpochResponseTopic{{Partitions: []kmsg.OffsetForLeaderEpochResponseTopicPartition{{ErrorCode: 3}}}}
	require.Equal(t, []int16{3}, errorCodes(epochs))
	require.Empty(t, errorCodes(kmsg.NewPtrMetadataResponse()))

	versions := kmsg.NewPtrApiVersionsResponse()
	versions.ErrorCode = 35
	require.Equal(t, []int16{35}, errorCodes(versions))
}
