package s3

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	smithyendpoints "github.com/aws/smithy-go/endpoints"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/objstore"
)

// counted counts how often endpoints are worked out.
type counted struct {
	awss3.EndpointResolverV2
	mu    sync.Mutex
	calls int
}

func (c *counted) ResolveEndpoint(ctx context.Context, p awss3.EndpointParameters) (smithyendpoints.Endpoint, error) {
	c.mu.Lock()
	c.calls++
	c.mu.Unlock()
	return c.EndpointResolverV2.ResolveEndpoint(ctx, p)
}

// What is remembered is what the SDK finds, for every kind of address, and does not mix up parameters.
func TestEndpoints_AreTheSDKs(t *testing.T) {
	sdk := awss3.NewDefaultEndpointResolverV2()
	counter := &counted{EndpointResolverV2: sdk}
	e := newEndpoints()
	e.inner = counter
	params := []awss3.EndpointParameters{
		{Bucket: aws.String("a-bucket"), Region: aws.String("eu-central-1")},
		{Bucket: aws.String("a-bucket"), Region: aws.String("cn-north-1")},
		{Bucket: aws.String("b-bucket"), Region: aws.String("eu-central-1")},
		{Bucket: aws.String("a-bucket"), Region: aws.String("eu-central-1"), ForcePathStyle: aws.Bool(true)},
		{Bucket: aws.String("a-bucket"), Region: aws.String("eu-central-1"), UseDualStack: aws.Bool(true)},
		{Bucket: aws.String("a-bucket"), Region: aws.String("us-east-1"), Endpoint: aws.String("http://127.0.0.1:9000"), ForcePathStyle: aws.Bool(true)},
		{Bucket: aws.String("a-bucket--use1-az4--x-s3"), Region: aws.String("us-east-1")},
	}
	for round := range 3 {
		for _, p := range params {
			p.Key = aws.String(string(rune('a' + round)))
			got, err := e.ResolveEndpoint(t.Context(), p)
			require.NoError(t, err)
			want, err := sdk.ResolveEndpoint(t.Context(), p)
			require.NoError(t, err)
			require.Equal(t, want, got)
			got.Headers.Set("changed", "by the caller")
			got.Properties.Set("changed", "too")
		}
		require.Equal(t, len(params), counter.calls, "once each")
	}
	_, err := e.ResolveEndpoint(t.Context(), awss3.EndpointParameters{Bucket: aws.String("b"), Region: aws.String("not a region")})
	require.Error(t, err)
}

func benchBucket(tb testing.TB) *Bucket {
	tb.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	tb.Cleanup(server.Close)
	b, err := New(context.Background(), Config{
		Bucket: "bucket", Region: "local", Endpoint: server.URL, PathStyle: true, AccessKey: "a", SecretKey: "s",
	})
	require.NoError(tb, err)
	tb.Cleanup(func() { b.Close() })
	return b
}

// Requests at once share what is remembered; for the race detector.
func TestEndpoints_RequestsAtOnce(t *testing.T) {
	b := benchBucket(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 20 {
				if err := b.Put(t.Context(), "key", objstore.NewBody([]byte("x"))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// The cost of one small put, everything included: client, SDK and a server that does nothing.
func BenchmarkSmallPut(b *testing.B) {
	bucket := benchBucket(b)
	body := objstore.NewBody(make([]byte, 1024))
	b.ReportAllocs()
	for b.Loop() {
		if err := bucket.Put(b.Context(), "key", body); err != nil {
			b.Fatal(err)
		}
	}
}
