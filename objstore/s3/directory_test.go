package s3_test

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/s3"
)

func TestIsDirectory(t *testing.T) {
	for name, want := range map[string]bool{
		"records--use1-az4--x-s3": true, "records--euw1-az1--xa-s3": true,
		"records": false, "x-s3": false, "records--x-s3-old": false,
	} {
		require.Equal(t, want, s3.IsDirectory(name), name)
	}
}

// directoryStore lists as Amazon's documentation says that directory buckets do (API reference, ListObjectsV2 and
// ListMultipartUploads): in no order, by opaque tokens, by prefixes that end in a slash, never from a key on.
type directoryStore struct {
	keys     []string // of objects, and of uploads, in the order in which they are listed
	page     int      // keys of one answer
	sessions atomic.Int64
	lists    atomic.Int64
	put      http.Header
}

const sessionToken = "session-token"

func (s *directoryStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if query.Has("session") {
		s.sessions.Add(1)
		fmt.Fprintf(w, `<CreateSessionResult><Credentials><AccessKeyId>session-key</AccessKeyId><SecretAccessKey>s</SecretAccessKey>`+
			`<SessionToken>%s</SessionToken><Expiration>%s</Expiration></Credentials></CreateSessionResult>`,
			sessionToken, time.Now().Add(5*time.Minute).UTC().Format(time.RFC3339))
		return
	}
	if r.Header.Get("X-Amz-S3session-Token") != sessionToken || !strings.Contains(r.Header.Get("Authorization"), "session-key/") {
		http.Error(w, `<Error><Code>AccessDenied</Code></Error>`, http.StatusForbidden)
		return
	}
	switch {
	case query.Has("uploads"):
		s.list(w, query.Get("prefix"), query.Get("key-marker"), "Upload", "NextKeyMarker", "ListMultipartUploadsResult")
	case query.Has("list-type"):
		if query.Has("start-after") {
			http.Error(w, `<Error><Code>InvalidRequest</Code></Error>`, http.StatusBadRequest)
			return
		}
		s.list(w, query.Get("prefix"), query.Get("continuation-token"), "Contents", "NextContinuationToken", "ListBucketResult")
	default:
		_, _ = io.Copy(io.Discard, r.Body)
		s.put = r.Header.Clone()
	}
}

// list answers one page; a token is the number of keys that were listed before it.
func (s *directoryStore) list(w http.ResponseWriter, prefix, token, element, next, root string) {
	s.lists.Add(1)
	if prefix != "" && !strings.HasSuffix(prefix, "/") {
		http.Error(w, `<Error><Code>InvalidRequest</Code></Error>`, http.StatusBadRequest)
		return
	}
	start, _ := strconv.Atoi(strings.TrimPrefix(token, "opaque-"))
	end := min(start+s.page, len(s.keys))
	fmt.Fprintf(w, "%s<%s><IsTruncated>%v</IsTruncated>", xml.Header, root, end < len(s.keys))
	if end < len(s.keys) {
		fmt.Fprintf(w, "<%s>opaque-%d</%s>", next, end, next)
	}
	for _, key := range s.keys[start:end] {
		if strings.HasPrefix(key, prefix) {
			fmt.Fprintf(w, "<%s><Key>%s</Key><UploadId>1</UploadId><Size>%d</Size></%s>", element, key, len(key), element)
		}
	}
	fmt.Fprintf(w, "</%s>", root)
}

func serveDirectory(t *testing.T, store http.Handler) *s3.Bucket {
	t.Helper()
	server := httptest.NewServer(store)
	t.Cleanup(server.Close)
	b, err := s3.New(t.Context(), s3.Config{
		Bucket: "b--use1-az4--x-s3", Prefix: "p", Endpoint: server.URL, AccessKey: "k", SecretKey: "s",
	})
	require.NoError(t, err)
	t.Cleanup(func() { b.Close() })
	return b
}

// unordered are keys under "p/" as a directory bucket may list them.
var unordered = []string{"p/c/2", "p/a/3", "p/b", "p/a/1", "p/c/1", "p/ab/1", "p/a/2", "p/a-"}

func TestDirectory_ListsInOrderWhatTheStoreListsInNone(t *testing.T) {
	store := &directoryStore{keys: unordered, page: 3}
	b := serveDirectory(t, store)
	for prefix, want := range map[string][]string{
		"":      {"a-", "a/1", "a/2", "a/3", "ab/1", "b", "c/1", "c/2"},
		"a":     {"a-", "a/1", "a/2", "a/3", "ab/1"},
		"a/":    {"a/1", "a/2", "a/3"},
		"c/2":   {"c/2"},
		"none/": nil,
	} {
		for _, limit := range []int{1, 2, 3, 1000} {
			var objects, uploads []string
			for after := ""; ; {
				page, err := b.List(t.Context(), prefix, after, limit)
				require.NoError(t, err)
				require.LessOrEqual(t, len(page), limit)
				if len(page) == 0 {
					break
				}
				for _, o := range page {
					require.EqualValues(t, len("p/")+len(o.Key), o.Size)
					objects, after = append(objects, o.Key), o.Key
				}
			}
			for after := ""; ; {
				page, err := b.Uploads(t.Context(), prefix, after, limit)
				require.NoError(t, err)
				require.LessOrEqual(t, len(page), limit)
				if len(page) == 0 {
					break
				}
				for _, u := range page {
					uploads, after = append(uploads, u.Key), u.Key
				}
			}
			require.Equal(t, want, objects, "prefix %q by %d", prefix, limit)
			require.Equal(t, want, uploads, "uploads of prefix %q by %d", prefix, limit)
		}
	}
}

func TestDirectory_UploadsOfOneKeyStayTogether(t *testing.T) {
	b := serveDirectory(t, &directoryStore{keys: []string{"p/b", "p/a", "p/b", "p/c"}, page: 2})
	page, err := b.Uploads(t.Context(), "", "", 2)
	require.NoError(t, err)
	require.Len(t, page, 1, "the second key's uploads do not fit")
	require.Equal(t, "a", page[0].Key)
	page, err = b.Uploads(t.Context(), "", "a", 3)
	require.NoError(t, err)
	require.Equal(t, []string{"b", "b", "c"}, []string{page[0].Key, page[1].Key, page[2].Key})
	page, err = b.Uploads(t.Context(), "", "a", 1)
	require.NoError(t, err)
	require.Equal(t, "b", page[0].Key, "one key's uploads do not fit: some are shown, the rest when they are gone")
}

// TestDirectory_KeepsTheLeastKeys has far more keys than a page, the least of them last.
func TestDirectory_KeepsTheLeastKeys(t *testing.T) {
	store := &directoryStore{page: 1000}
	for i := range 5000 {
		store.keys = append(store.keys, fmt.Sprintf("p/d/%05d", i))
	}
	slices.Reverse(store.keys)
	b := serveDirectory(t, store)
	page, err := b.List(t.Context(), "d/", "d/00006", 10)
	require.NoError(t, err)
	require.Len(t, page, 10)
	for i, o := range page {
		require.Equal(t, fmt.Sprintf("d/%05d", 7+i), o.Key)
	}
	require.EqualValues(t, 5, store.lists.Load())
}

// TestDirectory_SignsWithOneSession pins that requests are signed with the key of a session, opened once, and that a put
// is as it is everywhere.
func TestDirectory_SignsWithOneSession(t *testing.T) {
	store := &directoryStore{page: 10}
	b := serveDirectory(t, store)
	for i := range 3 {
		require.NoError(t, b.Put(t.Context(), fmt.Sprint("k", i), objstore.NewBody([]byte("x"))))
	}
	require.Equal(t, "*", store.put.Get("If-None-Match"))
	require.NotEmpty(t, store.put.Get("X-Amz-Checksum-Crc32c"))
	require.Equal(t, "UNSIGNED-PAYLOAD", store.put.Get("X-Amz-Content-Sha256"))
	require.EqualValues(t, 1, store.sessions.Load())
}

// TestDirectory_SaysWhyThereIsNoSession: who may not open a session of the bucket may do nothing in it, and a store that is away
// for a moment costs no put.
func TestDirectory_SaysWhyThereIsNoSession(t *testing.T) {
	sentinels := []error{
		objstore.ErrAlreadyExists, objstore.ErrConflict, objstore.ErrThrottled, objstore.ErrOutcomeUnknown, objstore.ErrNotFound,
		objstore.ErrNoBucket, s3.ErrClockSkew, objstore.ErrRefused, objstore.ErrNoCredentials,
	}
	for _, c := range []struct {
		status int // 0: the connection is cut
		code   string
		want   []error
		text   string
	}{
		{403, "AccessDenied", []error{objstore.ErrRefused}, "AccessDenied: m (status 403, request id none)"},
		{403, "RequestTimeTooSkewed", []error{objstore.ErrRefused, s3.ErrClockSkew}, "RequestTimeTooSkewed"},
		{404, "NoSuchBucket", []error{objstore.ErrNoBucket}, "NoSuchBucket"},
		{503, "SlowDown", []error{objstore.ErrThrottled}, "SlowDown"},
		{500, "InternalError", []error{objstore.ErrOutcomeUnknown}, "InternalError"},
		{0, "", []error{objstore.ErrOutcomeUnknown}, "EOF"},
		{404, "NoSuchKey", nil, "NoSuchKey"}, // which it cannot mean
		{412, "PreconditionFailed", nil, "PreconditionFailed"},
	} {
		t.Run(fmt.Sprint(c.status, c.code), func(t *testing.T) {
			b := serveDirectory(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if c.status == 0 {
					panic(http.ErrAbortHandler)
				}
				w.WriteHeader(c.status)
				fmt.Fprintf(w, `<?xml version="1.0"?><Error><Code>%s</Code><Message>m</Message></Error>`, c.code)
			}))
			err := b.Put(t.Context(), "k", objstore.NewBody([]byte("x")))
			for _, s := range sentinels {
				require.Equal(t, slices.Contains(c.want, s), errors.Is(err, s), "%v is %v", err, s)
			}
			require.ErrorContains(t, err, "open a session (s3express:CreateSession): ")
			require.ErrorContains(t, err, c.text)
			_, err = b.Head(t.Context(), "k")
			require.Equal(t, slices.Contains(c.want, objstore.ErrRefused), errors.Is(err, objstore.ErrRefused), "%v", err)
			if c.status != 0 {
				now, err := b.Now(t.Context())
				require.NoError(t, err, "a clock that is off must be noticed by just this answer")
				require.NotZero(t, now)
			}
		})
	}
}

// TestDirectory_OneSessionForAll: requests that find no session wait for one, which does not end with the request that was first.
func TestDirectory_OneSessionForAll(t *testing.T) {
	store := &directoryStore{page: 10}
	asked, answer := make(chan struct{}), make(chan struct{})
	b := serveDirectory(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("session") {
			close(asked)
			<-answer
		}
		store.ServeHTTP(w, r)
	}))
	first, giveUp := context.WithCancel(t.Context())
	var puts errgroup.Group
	puts.Go(func() error {
		err := b.Put(first, "k1", objstore.NewBody([]byte("x")))
		if !errors.Is(err, context.Canceled) || !errors.Is(err, objstore.ErrOutcomeUnknown) {
			return fmt.Errorf("was given up: %w", err)
		}
		return nil
	})
	<-asked
	puts.Go(func() error { return b.Put(t.Context(), "k2", objstore.NewBody([]byte("x"))) })
	giveUp()
	close(answer)
	require.NoError(t, puts.Wait())
	require.EqualValues(t, 1, store.sessions.Load())
}
