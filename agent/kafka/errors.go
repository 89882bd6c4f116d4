package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata"
)

// codes translates the typed errors below the Kafka edge; the first match counts.
var codes = []struct {
	err  error
	code *kerr.Error
}{
	{metadata.ErrTopicExists, kerr.TopicAlreadyExists},
	{metadata.ErrUnknownTopic, kerr.UnknownTopicOrPartition},
	{metadata.ErrUnknownPartition, kerr.UnknownTopicOrPartition},
	{metadata.ErrPartitionCount, kerr.InvalidPartitions},
	{metadata.ErrReplicationFactor, kerr.InvalidReplicationFactor},
	{metadata.ErrOffsetOutOfRange, kerr.OffsetOutOfRange},
	{kafkaproto.ErrCorrupt, kerr.CorruptMessage},
	{kafkaproto.ErrMalformed, kerr.InvalidRequest},
	// An agent without a session, or that cannot reach the owner, is not the one to ask: clients look for another
	// and repeat.
	{client.ErrSessionClosed, kerr.NotLeaderForPartition},
	{client.ErrUnavailable, kerr.NotLeaderForPartition},
	{client.ErrInvalid, kerr.InvalidRequest},
	{context.DeadlineExceeded, kerr.RequestTimedOut},
	{context.Canceled, kerr.RequestTimedOut},
}

// ErrorCode gives the Kafka error code for err: the code of a *kerr.Error in its tree, else that of the translation
// table, else UNKNOWN_SERVER_ERROR. A nil err is 0.
func ErrorCode(err error) int16 {
	if err == nil {
		return 0
	}
	var known *kerr.Error
	if errors.As(err, &known) {
		return known.Code
	}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.code.Code
		}
	}
	return kerr.UnknownServerError.Code
}
