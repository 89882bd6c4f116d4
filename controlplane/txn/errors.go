package txn

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/freshet-io/freshet/metadata"
)

// codes translates what commands end in.
var codes = []struct {
	err  error
	code *kerr.Error
}{
	{metadata.ErrUnknownTransaction, kerr.InvalidProducerIDMapping},
	{metadata.ErrFencedProducer, kerr.ProducerFenced},
	{metadata.ErrInvalidTransactionState, kerr.InvalidTxnState},
	{metadata.ErrNotInTransaction, kerr.TransactionAbortable},
	{metadata.ErrTransactionTooLarge, kerr.TransactionAbortable},
	{metadata.ErrNotAttempted, kerr.OperationNotAttempted},
	{metadata.ErrUnknownPartition, kerr.UnknownTopicOrPartition},
	{metadata.ErrUnknownTopic, kerr.UnknownTopicOrPartition},
}

// code returns the Kafka error code of a command's error, 0 for nil. A new transactional ID beyond a limit of the state is POLICY_VIOLATION.
// Java's client ends with its text (TransactionManager.InitProducerIdHandler). librdkafka tries again every 500 ms until the timeout of
// init_transactions() (rd_kafka_idemp_check_error), as for every code that does not fence or deny the client.
func code(err error) int16 {
	if err == nil {
		return 0
	}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.code.Code
		}
	}
	var limit *metadata.LimitError
	if errors.As(err, &limit) {
		return kerr.PolicyViolation.Code
	}
	return kerr.UnknownServerError.Code
}

// codeFor is code as a version of an API has it: those below fenced do not know PRODUCER_FENCED and get
// INVALID_PRODUCER_EPOCH (KIP-588, KafkaApis).
func codeFor(err error, version, fenced int16) int16 {
	c := code(err)
	if c == kerr.ProducerFenced.Code && version < fenced {
		return kerr.InvalidProducerEpoch.Code
	}
	return c
}
