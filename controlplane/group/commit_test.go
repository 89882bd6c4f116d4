package group

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/freshet-io/freshet/metadata"
)

// Clients that do not know TRANSACTION_ABORTABLE get an older code.
func TestTransactionCode_ByVersion(t *testing.T) {
	for _, c := range []struct {
		err     error
		version int32
		want    *kerr.Error
	}{
		{metadata.ErrTransactionTooLarge, 5, kerr.TransactionAbortable},
		{metadata.ErrTransactionTooLarge, 4, kerr.TransactionAbortable},
		{metadata.ErrTransactionTooLarge, 3, kerr.InvalidCommitOffsetSize},
		{metadata.ErrInvalidTransactionState, 4, kerr.TransactionAbortable},
		{metadata.ErrInvalidTransactionState, 3, kerr.InvalidTxnState},
	} {
		require.Equal(t, c.want.Code, transactionCode(c.err, c.version), "%v at version %d", c.err, c.version)
	}
}
