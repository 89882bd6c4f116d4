package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/mem"
	"github.com/freshet-io/freshet/objstore/objstoretest"
	"github.com/freshet-io/freshet/objstore/s3"
)

// serve gives a bucket whose store is the handler.
func serve(t *testing.T, handler http.HandlerFunc) *s3.Bucket {
	t.Helper()
	return servePrefix(t, "", handler)
}

func servePrefix(t *testing.T, prefix string, handler http.HandlerFunc) *s3.Bucket {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	b, err := s3.New(t.Context(), s3.Config{
		Bucket: "b", Prefix: prefix, Endpoint: server.URL, PathStyle: true, AccessKey: "k", SecretKey: "s",
	})
	require.NoError(t, err)
	t.Cleanup(func() { b.Close() })
	return b
}

// TestBucket_PutOnTheWire pins what a put sends: no other bytes than the body's, no waiting for the server's leave.
func TestBucket_PutOnTheWire(t *testing.T) {
	data := objstoretest.Bytes(1, 5<<20)
	body := objstore.NewBody(data[:3], data[3:1<<20], data[1<<20:])
	var header http.Header
	var got []byte
	b := serve(t, func(w http.ResponseWriter, r *http.Request) {
		header = r.Header.Clone()
		got, _ = io.ReadAll(r.Body)
		require.Equal(t, "/b/k/1", r.URL.Path)
		require.Equal(t, int64(len(data)), r.ContentLength)
		require.Empty(t, r.TransferEncoding)
	})
	require.NoError(t, b.Put(t.Context(), "k/1", body))
	require.True(t, bytes.Equal(data, got))
	require.Equal(t, "*", header.Get("If-None-Match"))
	require.Equal(t, "UNSIGNED-PAYLOAD", header.Get("X-Amz-Content-Sha256"))
	require.NotEmpty(t, header.Get("X-Amz-Checksum-Crc32c"))
	require.Contains(t, header.Get("Authorization"), "x-amz-checksum-crc32c", "the checksum is signed")
	require.Empty(t, header.Get("Expect"))
	require.Empty(t, header.Get("X-Amz-Trailer"))
}

func TestBucket_PutErrors(t *testing.T) {
	answers := []struct {
		status int
		code   string
		want   error
	}{
		{412, "PreconditionFailed", objstore.ErrAlreadyExists},
		{409, "ConditionalRequestConflict", objstore.ErrConflict},
		{503, "SlowDown", objstore.ErrThrottled},
		{503, "", objstore.ErrThrottled},
		{429, "", objstore.ErrThrottled},
		{400, "BadDigest", objstore.ErrChecksum},
		{400, "RequestTimeout", objstore.ErrOutcomeUnknown},
		{500, "InternalError", objstore.ErrOutcomeUnknown},
		{502, "", objstore.ErrOutcomeUnknown},
		{504, "", objstore.ErrOutcomeUnknown},
		{404, "NoSuchBucket", objstore.ErrNoBucket},
		{403, "RequestTimeTooSkewed", s3.ErrClockSkew},
		{403, "AccessDenied", objstore.ErrRefused},
		{403, "", objstore.ErrRefused},
		{401, "Unauthorized", objstore.ErrRefused},
		{400, "ExpiredToken", objstore.ErrRefused},
		{400, "AuthorizationHeaderMalformed", objstore.ErrRefused},
		{301, "PermanentRedirect", objstore.ErrRefused},
		{507, "XMinioStorageFull", objstore.ErrFull},
		{507, "", objstore.ErrFull},
		{400, "XMinioAdminBucketQuotaExceeded", objstore.ErrFull},
		{403, "QuotaExceeded", objstore.ErrFull},
		{400, "InvalidArgument", nil},
	}
	sentinels := []error{
		objstore.ErrAlreadyExists, objstore.ErrConflict, objstore.ErrThrottled, objstore.ErrChecksum,
		objstore.ErrOutcomeUnknown, objstore.ErrNotFound, objstore.ErrNoBucket, s3.ErrClockSkew,
		objstore.ErrRefused, objstore.ErrNoCredentials, objstore.ErrFull, objstore.ErrReadOnly,
	}
	requests := 0
	answer := answers[0]
	b := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests++
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(answer.status)
		if answer.code != "" {
			fmt.Fprintf(w, `<?xml version="1.0"?><Error><Code>%s</Code><Message>m</Message></Error>`, answer.code)
		}
	})
	for i, a := range answers {
		answer = a
		err := b.Put(t.Context(), "k", objstore.NewBody([]byte("x")))
		for _, s := range sentinels {
			require.Equal(t, errors.Is(a.want, s), errors.Is(err, s), "%d %s: %v is %v", a.status, a.code, err, s)
		}
		require.Equal(t, i+1, requests, "the bucket does not retry")
	}
	answer.status, answer.code = 403, "AccessDenied"
	err := b.Put(t.Context(), "k", objstore.NewBody([]byte("x")))
	require.EqualError(t, err, "put k: object store refuses access: AccessDenied: m (status 403, request id none)")
}

func TestBucket_SaysWhyThereIsNoAnswer(t *testing.T) {
	nobody := httptest.NewServer(http.NotFoundHandler())
	nobody.Close()
	b, err := s3.New(t.Context(), s3.Config{Bucket: "b", Endpoint: nobody.URL, PathStyle: true, AccessKey: "k", SecretKey: "s"})
	require.NoError(t, err)
	defer b.Close()
	address := nobody.Listener.Addr().String()
	_, err = b.Now(t.Context())
	require.EqualError(t, err, fmt.Sprintf(`ask for time: Head "http://%[1]s/b": dial tcp %[1]s: connect: connection refused`, address))
}

// An instance without a role answers a request for credentials with 404.
func TestBucket_NoCredentialsAreNoMissingObject(t *testing.T) {
	metadata := httptest.NewServer(http.NotFoundHandler())
	defer metadata.Close()
	for name, value := range map[string]string{
		"AWS_EC2_METADATA_SERVICE_ENDPOINT": metadata.URL, "AWS_EC2_METADATA_DISABLED": "", "AWS_CONFIG_FILE": "/dev/null",
		"AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_PROFILE": "",
	} {
		t.Setenv(name, value)
	}
	b, err := s3.New(t.Context(), s3.Config{Bucket: "b", Region: "r", Endpoint: "http://127.0.0.1:1", PathStyle: true})
	require.NoError(t, err)
	defer b.Close()
	_, err = b.Head(t.Context(), "k")
	require.ErrorContains(t, err, "credentials")
	require.NotErrorIs(t, err, objstore.ErrNotFound)
	_, err = b.Now(t.Context())
	require.ErrorContains(t, err, "credentials")
}

// A container asks its host for credentials (ECS, EKS Pod Identity), which may answer with a status and nothing else.
func TestBucket_CredentialsOfContainers(t *testing.T) {
	var answer atomic.Pointer[http.HandlerFunc]
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*answer.Load())(w, r) }))
	defer host.Close()
	for name, value := range map[string]string{
		"AWS_CONTAINER_CREDENTIALS_FULL_URI": host.URL, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "",
		"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "", "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
		"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_PROFILE": "", "AWS_WEB_IDENTITY_TOKEN_FILE": "",
	} {
		t.Setenv(name, value)
	}
	for _, c := range []struct {
		name, text string
		again      bool // the put may be made again
		answer     http.HandlerFunc
	}{
		{"a status alone", "(status 500)", true, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }},
		{"nothing", "EOF", true, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		{"a refusal", "AccessDenied: not this pod (status 403)", false, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"code":"AccessDenied","message":"not this pod"}`)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && c.again {
				t.Skip("waits 2.5 s for the retries of the SDK")
			}
			answer.Store(&c.answer)
			b, err := s3.New(t.Context(), s3.Config{Bucket: "b", Region: "r", Endpoint: "http://127.0.0.1:1", PathStyle: true})
			require.NoError(t, err)
			defer b.Close()
			err = b.Put(t.Context(), "k", objstore.NewBody([]byte("x")))
			require.ErrorIs(t, err, objstore.ErrNoCredentials)
			require.ErrorContains(t, err, c.text)
			require.NotContains(t, err.Error(), ": :")
			again := errors.Is(err, objstore.ErrOutcomeUnknown) || errors.Is(err, objstore.ErrThrottled)
			require.Equal(t, c.again, again, "%v", err)
			require.NotErrorIs(t, err, objstore.ErrRefused, "the store has said nothing")
		})
	}
}

// The SDK's own lines, here that it falls back to version 1 of the instance's service, go where all others go.
func TestBucket_WhatTheSDKSays(t *testing.T) {
	instance := httptest.NewServer(http.NotFoundHandler())
	defer instance.Close()
	for name, value := range map[string]string{
		"AWS_EC2_METADATA_SERVICE_ENDPOINT": instance.URL, "AWS_EC2_METADATA_DISABLED": "", "AWS_CONFIG_FILE": "/dev/null",
		"AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_PROFILE": "",
	} {
		t.Setenv(name, value)
	}
	core, said := observer.New(zap.DebugLevel)
	b, err := s3.New(t.Context(), s3.Config{Bucket: "b", Region: "r", Endpoint: "http://127.0.0.1:1", PathStyle: true, Log: zap.New(core)})
	require.NoError(t, err)
	defer b.Close()
	_, err = b.Head(t.Context(), "k")
	require.ErrorIs(t, err, objstore.ErrNoCredentials)
	lines := said.FilterMessage("the AWS SDK says").All()
	require.NotEmpty(t, lines)
	require.Equal(t, zap.DebugLevel, lines[0].Level)
	require.Contains(t, lines[0].ContextMap()["text"], "IMDSv1")
}

// TestBucket_BuffersAreFreeAfterEarlyAnswer lets the server answer, hang or hang up before it has read the body. The
// buffers are overwritten as soon as the put returns: the race detector finds whoever still reads them.
func TestBucket_BuffersAreFreeAfterEarlyAnswer(t *testing.T) {
	hang := make(chan struct{})
	servers := map[string]http.HandlerFunc{
		"answers at once": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusPreconditionFailed) },
		"hangs":           func(_ http.ResponseWriter, r *http.Request) { _, _ = r.Body.Read(make([]byte, 10)); <-hang },
		"hangs up":        func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	}
	for name, handler := range servers {
		t.Run(name, func(t *testing.T) {
			b := serve(t, handler)
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					data := make([]byte, 32<<20)
					ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
					defer cancel()
					err := b.Put(ctx, "k", objstore.NewBody(data[:1<<20], data[1<<20:]))
					for i := 0; i < len(data); i += 1000 {
						data[i] = 1
					}
					if err == nil {
						t.Error("put succeeded")
					}
				})
			}
			wg.Wait()
			if name == "hangs" {
				close(hang)
			}
		})
	}
}

func TestBucket_StoreWithoutRanges(t *testing.T) {
	b := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "0123456789") })
	for _, r := range []struct {
		offset, length int64
		want           string
	}{{0, -1, "0123456789"}, {3, 4, "3456"}, {3, -1, "3456789"}, {8, 100, "89"}, {0, 2, "01"}} {
		got, err := objstoretest.Get(t.Context(), b, "k", r.offset, r.length)
		require.NoError(t, err)
		require.Equal(t, r.want, string(got))
	}
	_, err := b.Get(t.Context(), "k", 10, 1)
	require.ErrorIs(t, err, objstore.ErrRange)
}

func TestBucket_StoreWithoutBatchDelete(t *testing.T) {
	var mu sync.Mutex
	var batches int
	var deleted []string
	b := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.Method == http.MethodPost {
			batches++
			w.WriteHeader(http.StatusNotImplemented)
			return
		}
		deleted = append(deleted, r.URL.Path)
		if strings.HasSuffix(r.URL.Path, "missing") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	for range 2 {
		require.NoError(t, b.Delete(t.Context(), []string{"a", "b", "missing"}))
	}
	require.Len(t, deleted, 6)
	require.Equal(t, 1, batches, "the batch is tried once")
}

// deleting is a store in memory whose answer to the deletion of k/refused is a refusal, in a batch or alone.
type deleting struct {
	*mem.Bucket
	batches bool
}

var batchKey = regexp.MustCompile(`<Key>k/([^<]*)</Key>`)

func (d deleting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(r.URL.Path, "/b/k/")
	switch body, _ := io.ReadAll(r.Body); {
	case r.Method == http.MethodPut:
		_ = d.Put(r.Context(), key, objstore.NewBody(body))
	case r.Method == http.MethodHead:
		if _, err := d.Head(r.Context(), key); err != nil {
			w.WriteHeader(http.StatusNotFound)
		}
	case r.Method == http.MethodPost && !d.batches:
		w.WriteHeader(http.StatusNotImplemented)
	case r.Method == http.MethodPost:
		fmt.Fprint(w, `<?xml version="1.0"?><DeleteResult>`)
		for _, m := range batchKey.FindAllStringSubmatch(string(body), -1) {
			switch m[1] {
			case "refused":
				fmt.Fprint(w, `<Error><Key>k/refused</Key><Code>AccessDenied</Code><Message>under legal hold</Message></Error>`)
			case "missing":
				fmt.Fprint(w, `<Error><Key>k/missing</Key><Code>NoSuchKey</Code></Error>`)
			case "foreign":
				fmt.Fprint(w, `<Error><Key>other</Key><Code>InternalError</Code></Error>`)
			default:
				_ = d.Delete(r.Context(), []string{m[1]})
			}
		}
		fmt.Fprint(w, `</DeleteResult>`)
	case key == "refused":
		w.WriteHeader(http.StatusForbidden)
	default:
		_ = d.Delete(r.Context(), []string{key})
		w.WriteHeader(http.StatusNoContent)
	}
}

func TestBucket_DeleteRefused(t *testing.T) {
	for name, batches := range map[string]bool{"in a batch": true, "one by one": false} {
		t.Run(name, func(t *testing.T) {
			b := servePrefix(t, "k", deleting{mem.New(), batches}.ServeHTTP)
			objstoretest.Refusal(t, b, "refused")
			err := b.Delete(t.Context(), []string{"refused"})
			require.ErrorIs(t, err, objstore.ErrRefused)
			if !batches {
				return
			}
			require.EqualError(t, err, "1 objects not deleted, the first is refused: object store refuses access: AccessDenied: under legal hold")
			var some *objstore.DeleteError
			err = b.Delete(t.Context(), []string{"foreign", "refused"})
			require.ErrorContains(t, err, "InternalError")
			require.NotErrorAs(t, err, &some, "an error without one of the keys may be any key's")
		})
	}
}

// A single delete that fails stops none of the others, of which deletesAtOnce are under way.
func TestBucket_SingleDeletesGoOn(t *testing.T) {
	stored := mem.New()
	b := servePrefix(t, "k", deleting{stored, false}.ServeHTTP)
	keys := []string{"refused"}
	for i := range objstore.MaxKeys - 1 {
		keys = append(keys, fmt.Sprint("object-", i))
		require.NoError(t, stored.Put(t.Context(), keys[i+1], objstore.NewBody()))
	}
	var some *objstore.DeleteError
	require.ErrorAs(t, b.Delete(t.Context(), keys), &some)
	require.Len(t, some.Failed, 1)
	page, err := stored.List(t.Context(), "", "", objstore.MaxKeys)
	require.NoError(t, err)
	require.Empty(t, page)
}

// BenchmarkPut measures the client's side of a put against a server that throws the body away in the same process.
func BenchmarkPut(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		buf := make([]byte, 1<<20)
		for {
			if _, err := r.Body.Read(buf); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	bucket, err := s3.New(b.Context(), s3.Config{Bucket: "b", Endpoint: server.URL, PathStyle: true, AccessKey: "k", SecretKey: "s"})
	require.NoError(b, err)
	data := make([]byte, 8<<20)
	var buffers [][]byte
	for i := 0; i < len(data); i += 64 << 10 {
		buffers = append(buffers, data[i:i+64<<10])
	}
	body := objstore.NewBody(buffers...)
	b.SetBytes(body.Size)
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, bucket.Put(b.Context(), "k", body))
	}
}

// A store that takes requests and never answers holds up none of those that carry no object for longer than their time-out.
func TestBucket_StoreThatNeverAnswers(t *testing.T) {
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-over
	}))
	t.Cleanup(func() { close(over); server.Close() })
	b, err := s3.New(t.Context(), s3.Config{
		Bucket: "b", Endpoint: server.URL, PathStyle: true, AccessKey: "k", SecretKey: "s", RequestTimeout: 50 * time.Millisecond,
	})
	require.NoError(t, err)
	defer b.Close()
	for name, ask := range map[string]func(context.Context) error{
		"head":    func(ctx context.Context) error { _, err := b.Head(ctx, "k"); return err },
		"list":    func(ctx context.Context) error { _, err := b.List(ctx, "", "", 10); return err },
		"delete":  func(ctx context.Context) error { return b.Delete(ctx, []string{"k"}) },
		"create":  func(ctx context.Context) error { _, err := b.Create(ctx, "k"); return err },
		"uploads": func(ctx context.Context) error { _, err := b.Uploads(ctx, "", "", 10); return err },
		"abort":   func(ctx context.Context) error { return b.AbortUpload(ctx, objstore.UploadInfo{Key: "k", ID: "1"}) },
		"now":     func(ctx context.Context) error { _, err := b.Now(ctx); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		require.Error(t, ask(ctx), name)
		require.NoError(t, ctx.Err(), name)
		cancel()
	}
}
