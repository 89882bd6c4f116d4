package faults

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/freshet-io/freshet/test/harness"
)

const (
	// hugeGroups and hugeGroupBytes come to 4 MiB in one transaction, more than metadata.MaxTransactionGroupBytes.
	hugeGroups     = 128
	hugeGroupBytes = 32 << 10
	hugeRequests   = 16 // in flight
	// logRequests write 140 MiB to the log, in which two snapshots of `freshet dev` are due.
	logRequests = 4500
)

// TestDev_HugeTransaction has one client add as many groups with the longest names to one transaction as it takes, waits until the log was
// trimmed behind two snapshots, and kills `freshet dev` with kill -9: it starts again with what it had.
func TestDev_HugeTransaction(t *testing.T) {
	t.Parallel()
	d := harness.StartDev(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(d.Bootstrap), kgo.DefaultProduceTopic("kept"), kgo.AllowAutoTopicCreation())
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.ProduceSync(t.Context(), kgo.StringRecord("before")).FirstErr())

	added, refused := addHugeGroups(t, client)
	t.Logf("%d groups added, %d refused", added, refused)
	require.Positive(t, added)
	require.Positive(t, refused, "the transaction is bounded")
	fillLog(t, client)
	require.Eventually(t, func() bool { return metric(t, d, "freshet_replica_snapshots_total") >= 2 }, time.Minute, 100*time.Millisecond)
	require.Zero(t, metric(t, d, "freshet_replica_unsnapshottable"))

	d.Kill()
	d.Restart()
	require.NoError(t, client.ProduceSync(t.Context(), kgo.StringRecord("after")).FirstErr())
	reader, err := kgo.NewClient(kgo.SeedBrokers(d.Bootstrap), kgo.ConsumeTopics("kept"))
	require.NoError(t, err)
	defer reader.Close()
	var values []string
	for len(values) < 2 {
		fetches := reader.PollFetches(t.Context())
		require.NoError(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	require.Equal(t, []string{"before", "after"}, values)
}

// addHugeGroups returns how many groups were added to one transaction, and how many were refused as too many.
func addHugeGroups(t *testing.T, client *kgo.Client) (added, refused int) {
	t.Helper()
	init := kmsg.NewPtrInitProducerIDRequest()
	init.TransactionalID, init.TransactionTimeoutMillis = kmsg.StringPtr("huge"), 900_000
	init.ProducerID, init.ProducerEpoch = -1, -1
	producer, err := init.RequestWith(t.Context(), client)
	require.NoError(t, err)
	require.NoError(t, kerr.ErrorForCode(producer.ErrorCode))
	codes := make([]int16, hugeGroups)
	requests, ctx := errgroup.WithContext(t.Context())
	requests.SetLimit(hugeRequests)
	for n := range hugeGroups {
		requests.Go(func() (err error) {
			codes[n], err = addGroup(ctx, client, producer, n)
			return err
		})
	}
	require.NoError(t, requests.Wait())
	for _, code := range codes {
		switch code {
		case 0:
			added++
		case kerr.TransactionAbortable.Code:
			refused++
		default:
			require.NoError(t, kerr.ErrorForCode(code))
		}
	}
	return added, refused
}

// fillLog sets a config of a topic again and again, 32,000 bytes each time.
func fillLog(t *testing.T, client *kgo.Client) {
	t.Helper()
	requests, ctx := errgroup.WithContext(t.Context())
	requests.SetLimit(hugeRequests)
	for n := range logRequests {
		requests.Go(func() error {
			c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			c.Name, c.Op = "follower.replication.throttled.replicas", kmsg.IncrementalAlterConfigOpSet
			c.Value = kmsg.StringPtr(strings.TrimSuffix(strings.Repeat(fmt.Sprintf("%04d:1,", n), 32_000/7), ","))
			r := kmsg.NewIncrementalAlterConfigsRequestResource()
			r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, "kept"
			r.Configs = append(r.Configs, c)
			in := kmsg.NewPtrIncrementalAlterConfigsRequest()
			in.Resources = append(in.Resources, r)
			out, err := in.RequestWith(ctx, client)
			if err != nil {
				return fmt.Errorf("set config: %w", err)
			}
			return kerr.ErrorForCode(out.Resources[0].ErrorCode)
		})
	}
	require.NoError(t, requests.Wait())
}

func addGroup(ctx context.Context, client *kgo.Client, p *kmsg.InitProducerIDResponse, n int) (int16, error) {
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch = "huge", p.ProducerID, p.ProducerEpoch
	add.Group = fmt.Sprintf("%06d", n) + strings.Repeat("x", hugeGroupBytes-1-6)
	answer, err := add.RequestWith(ctx, client)
	if err != nil {
		return 0, fmt.Errorf("add group %d: %w", n, err)
	}
	return answer.ErrorCode, nil
}

// metric returns the value of a metric without labels of its own.
func metric(t *testing.T, d *harness.Dev, name string) float64 {
	t.Helper()
	resp, err := http.Get(d.HTTP + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^` + name + `(?:\{[^}]*\})? (\S+)$`).FindSubmatch(text)
	require.NotNil(t, found, "metric %s", name)
	v, err := strconv.ParseFloat(string(found[1]), 64)
	require.NoError(t, err)
	return v
}
