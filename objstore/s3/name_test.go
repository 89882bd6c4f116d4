package s3_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/objstore/s3"
)

// S3's rules for names of buckets hold before the first request, with a sentence that has the remedy.
func TestParseURL_ChecksTheBucketName(t *testing.T) {
	for _, name := range []string{
		"abc", "my.aws.bucket", "my-bucket.1", "1-2", "10.0.0", strings.Repeat("a", 63), "records--use1-az4--x-s3", "point-abc123-s3alias",
	} {
		_, err := s3.ParseURL(&url.URL{Scheme: "s3", Host: name})
		require.NoError(t, err, name)
	}
	for name, fault := range map[string]string{
		"":                      "no bucket name",
		"ab":                    `bucket name "ab" has 2 characters: S3 allows 3 to 63`,
		strings.Repeat("a", 64): "has 64 characters: S3 allows 3 to 63",
		"MyBucket":              `bucket name "MyBucket" has the character 'M': S3 allows lower-case letters, digits, dots and hyphens`,
		"my_bucket":             `has the character '_'`,
		"büro":                  `has the character 'ü'`,
		"-bucket":               "does not begin and end with a letter or digit",
		"bucket.":               "does not begin and end with a letter or digit",
		"my..bucket":            "has two dots in a row",
		"192.168.5.4":           `bucket name "192.168.5.4" is an IP address, which S3 does not allow: write the name of the bucket, and the store's address as endpoint=http://192.168.5.4`,
		"minio:9000":            "has a port: write the name of the bucket, and the store's address as endpoint=http://minio:9000",
		"xn--bucket":            "begins with xn--, which S3 reserves",
		"sthree-bucket":         "begins with sthree-, which S3 reserves",
	} {
		_, err := s3.ParseURL(&url.URL{Scheme: "s3", Host: name})
		require.ErrorContains(t, err, fault, name)
	}
}
