package testservers

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// Attempts to find ports that are still free when the server binds them.
const portAttempts = 5

// healthTimeout bounds one question whether a server serves.
const healthTimeout = 5 * time.Second

// S3 is a running S3 server. Its objects are files: Dir/<bucket>/<key>.
type S3 struct {
	*Process
	Endpoint  string // http://127.0.0.1:port
	Region    string
	AccessKey string
	SecretKey string
	Dir       string
}

// StartS3 starts an S3 server with those buckets in a directory of the test's own.
func StartS3(tb testing.TB, buckets ...string) *S3 {
	tb.Helper()
	return StartS3At(tb, Place{}, buckets...)
}

// servers counts the S3 servers of this process. Each has credentials of its own.
var servers atomic.Int64

// StartS3At is StartS3 at another place.
func StartS3At(tb testing.TB, place Place, buckets ...string) *S3 {
	tb.Helper()
	program := Binary(tb, "versitygw")
	n := servers.Add(1)
	s := &S3{Region: "us-east-1", AccessKey: fmt.Sprintf("access-key-%d", n), SecretKey: fmt.Sprintf("secret-key-%d", n), Dir: tb.TempDir()}
	for _, b := range buckets {
		s.CreateBucket(tb, b)
	}
	sidecar := tb.TempDir() // metadata beside the objects: not every test file system has extended attributes
	var err error
	for range portAttempts {
		address := place.FreeAddress(tb)
		s.Endpoint = "http://" + address
		args := []string{
			"--port", address, "--access", s.AccessKey, "--secret", s.SecretKey, "--region", s.Region,
			"--keep-alive", "--quiet", "--health", "/health", "posix", "--sidecar", sidecar, s.Dir,
		}
		s.Process = newProcess(tb, place, "versitygw", program, args, healthCheck(place.HTTP(healthTimeout), s.Endpoint+"/health"))
		if err = s.start(); err == nil {
			err = s.awaitReady()
		}
		if err == nil {
			return s
		}
		s.Kill()
	}
	tb.Fatal(err)
	return nil
}

// CreateBucket adds a bucket.
func (s *S3) CreateBucket(tb testing.TB, name string) {
	tb.Helper()
	if err := os.Mkdir(filepath.Join(s.Dir, name), 0o755); err != nil {
		tb.Fatal(err)
	}
}

// URL is the bucket's URL for `--bucket`, with credentials. prefix may be empty.
func (s *S3) URL(bucket, prefix string) string {
	query := url.Values{
		"region": {s.Region}, "endpoint": {s.Endpoint}, "path-style": {"true"},
		"access-key": {s.AccessKey}, "secret-key": {s.SecretKey},
	}
	u := url.URL{Scheme: "s3", Host: bucket, Path: prefix, RawQuery: query.Encode()}
	return u.String()
}

// healthCheck gives a function that returns nil when a GET of the URL answers 200.
func healthCheck(client *http.Client, target string) func() error {
	return func() error {
		resp, err := client.Get(target)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", target, resp.Status)
		}
		return nil
	}
}
