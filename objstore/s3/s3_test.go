package s3_test

import (
	"context"
	"fmt"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/objstoretest"
	"github.com/freshet-io/freshet/objstore/s3"
)

func open(t *testing.T, rawURL string) *s3.Bucket {
	t.Helper()
	u, err := url.Parse(rawURL)
	require.NoError(t, err)
	config, err := s3.ParseURL(u)
	require.NoError(t, err)
	b, err := s3.New(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { b.Close() })
	return b
}

func TestBucket_Contract(t *testing.T) {
	server := testservers.StartS3(t, "bucket")
	var n atomic.Int32
	objstoretest.Run(t, func(t *testing.T) objstore.Bucket {
		t.Helper()
		return open(t, server.URL("bucket", fmt.Sprintf("test/%d", n.Add(1))))
	})
	t.Run("prefixes are apart, and the whole bucket shows them", func(t *testing.T) {
		require.NoError(t, open(t, server.URL("bucket", "zz")).Put(t.Context(), "k", objstore.NewBody([]byte("x"))))
		page, err := open(t, server.URL("bucket", "z")).List(t.Context(), "", "", 10)
		require.NoError(t, err)
		require.Empty(t, page)
		page, err = open(t, server.URL("bucket", "")).List(t.Context(), "zz/", "", 10)
		require.NoError(t, err)
		require.Len(t, page, 1)
		require.Equal(t, "zz/k", page[0].Key)
	})
	t.Run("checksums are kept", func(t *testing.T) {
		b := open(t, server.URL("bucket", "crc"))
		body := objstore.NewBody([]byte("x"))
		require.NoError(t, b.Put(t.Context(), "k", body))
		info, err := b.Head(t.Context(), "k")
		require.NoError(t, err)
		require.True(t, info.HasCRC)
		require.Equal(t, body.CRC32C, info.CRC32C)
		data := objstoretest.Bytes(1, objstore.MinPart+1)
		u, err := b.Create(t.Context(), "parts")
		require.NoError(t, err)
		require.NoError(t, u.Part(t.Context(), 1, 0, objstore.NewBody(data[:objstore.MinPart])))
		require.NoError(t, u.Part(t.Context(), 2, objstore.MinPart, objstore.NewBody(data[objstore.MinPart:])))
		require.NoError(t, u.Complete(t.Context()))
		info, err = b.Head(t.Context(), "parts")
		require.NoError(t, err)
		require.True(t, info.HasCRC, "the whole object's, not one of its parts' checksums")
		require.Equal(t, objstore.NewBody(data).CRC32C, info.CRC32C)
	})
	t.Run("no such bucket", func(t *testing.T) {
		b := open(t, server.URL("other", ""))
		require.ErrorIs(t, b.Put(t.Context(), "k", objstore.NewBody()), objstore.ErrNoBucket)
		_, err := b.Now(t.Context())
		require.NoError(t, err, "any answer tells the time")
	})
	t.Run("server gone", func(t *testing.T) {
		b := open(t, server.URL("bucket", "gone"))
		server.Kill()
		require.ErrorIs(t, b.Put(t.Context(), "k", objstore.NewBody([]byte("x"))), objstore.ErrOutcomeUnknown)
		_, err := b.Head(t.Context(), "k")
		require.Error(t, err)
		require.NotErrorIs(t, err, objstore.ErrNotFound)
		_, err = b.Now(t.Context())
		require.Error(t, err)
	})
}

func TestParseURL(t *testing.T) {
	parse := func(raw string) (s3.Config, error) {
		u, err := url.Parse(raw)
		require.NoError(t, err)
		return s3.ParseURL(u)
	}
	c, err := parse("s3://name/a/b/?region=eu-west-1&endpoint=http%3A%2F%2Flocalhost%3A9000&path-style=true&access-key=k&secret-key=s")
	require.NoError(t, err)
	require.Equal(t, s3.Config{
		Bucket: "name", Prefix: "a/b", Region: "eu-west-1", Endpoint: "http://localhost:9000", PathStyle: true,
		AccessKey: "k", SecretKey: "s",
	}, c)
	for raw, fault := range map[string]string{
		"s3:///x":                              "no bucket name",
		"s3://bucket?pathstyle=true":           `unknown parameter "pathstyle"`,
		"s3://bucket?path-style=yes":           `"yes" is not true or false`,
		"s3://bucket/a/../b":                   "invalid object key",
		"s3://bucket?access-key=k":             "come together",
		"s3://bucket?endpoint=localhost%3A900": "not an http or https URL",
	} {
		_, err := parse(raw)
		require.ErrorContains(t, err, fault, raw)
	}
}

func TestNew_NeedsRegion(t *testing.T) {
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_CONFIG_FILE", "/nowhere")
	_, err := s3.New(context.Background(), s3.Config{Bucket: "b", AccessKey: "k", SecretKey: "s"})
	require.ErrorContains(t, err, "no region")
}
