package txn_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A transactional ID of tens of kilobytes does not make one match take seconds: MaxRun and turns are checked between names only.
func TestListTransactions_OfLongIDs(t *testing.T) {
	run(t, func(c *cluster) {
		c.init(strings.Repeat("a", 30_000))
		expression := strings.Repeat("(?:a*b?){600}", 2) + "(?:a*b?){400}x"
		in := kmsg.NewPtrListTransactionsRequest()
		in.TransactionalIDPattern = &expression
		began := time.Now()
		stop := make(chan struct{})
		ended := make(chan time.Duration)
		go func() { ended <- cpu(stop) }()
		out := ask[*kmsg.ListTransactionsResponse](c, in, 2)
		close(stop)
		took := <-ended
		t.Log(out.ErrorCode, kerr.InvalidRegularExpression.Code, time.Since(began), took)
		require.Less(t, took, 500*time.Millisecond)
	})
}
