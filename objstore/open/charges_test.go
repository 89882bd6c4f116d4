package open_test

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/objstore/open"
)

func TestCharges(t *testing.T) {
	at := func(endpoint string) string { return "s3://records?endpoint=" + url.QueryEscape(endpoint) }
	for _, free := range []string{
		"mem://", "file:///data", "file:data", "file:///data?latency=s3-standard",
		at("http://127.0.0.1:7070"), at("http://[::1]:7070"), at("http://localhost:9000"), at("http://minio:9000"),
		at("https://10.1.2.3"), at("https://172.31.0.1"), at("https://192.168.1.1"), at("http://[fd00::1]:9000"), at("http://[::ffff:10.0.0.1]"),
		at("http://169.254.1.1"), at("http://minio.storage.svc:9000"), at("http://minio.storage.svc.cluster.local:9000"), at("https://S3.Corp.Internal."),
	} {
		charges, reason := open.Charges(free)
		require.False(t, charges, "%s: %s", free, reason)
		require.NotEmpty(t, reason)
	}
	for billed, reason := range map[string]string{
		"s3://records?region=eu-west-1":                  "AWS",
		"s3://records--use1-az4--x-s3?region=us-east-1":  "Express",
		at("https://s3.eu-west-1.amazonaws.com"):         "s3.eu-west-1.amazonaws.com is public",
		at("https://account.r2.cloudflarestorage.com"):   "is public",
		at("https://storage.googleapis.com"):             "is public",
		at("https://8.8.8.8"):                            "is public",
		at("https://172.32.0.1"):                         "is public",
		at("https://s3.local.example.com"):               "is public",
		at("https://[2001:db8::1]:9000"):                 "is public",
		"s3://records?endpoint=http%3A%2F%2F%5B%3A%3A1%": "AWS", // not a URL: refused elsewhere
	} {
		charges, got := open.Charges(billed)
		require.True(t, charges, billed)
		require.Contains(t, got, reason)
	}
}
