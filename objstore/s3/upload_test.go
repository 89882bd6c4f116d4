package s3_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/s3"
)

// uploadStore answers the requests of uploads and notes them, as "create", "part 1 <crc>", "complete <condition>", ...
type uploadStore struct {
	requests []string
	taken    bool                                          // the key exists
	complete func(w http.ResponseWriter, condition string) // nil: success
}

func (s *uploadStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	query := r.URL.Query()
	switch {
	case r.Method == http.MethodHead:
		s.note("head")
		if !s.taken {
			w.WriteHeader(http.StatusNotFound)
		}
	case query.Has("uploads"):
		s.note("create %s %s", r.Header.Get("X-Amz-Checksum-Algorithm"), r.Header.Get("X-Amz-Checksum-Type"))
		fmt.Fprint(w, `<InitiateMultipartUploadResult><UploadId>id</UploadId></InitiateMultipartUploadResult>`)
	case r.Method == http.MethodPut:
		s.note("part %s %s %s", query.Get("partNumber"), r.Header.Get("X-Amz-Content-Sha256"), body)
		w.Header().Set("ETag", `"tag`+query.Get("partNumber")+`"`)
	case r.Method == http.MethodPost:
		condition := r.Header.Get("If-None-Match")
		s.note("complete %q", condition)
		if s.complete != nil {
			s.complete(w, condition)
			return
		}
		fmt.Fprint(w, `<CompleteMultipartUploadResult><ETag>"whole"</ETag></CompleteMultipartUploadResult>`)
	}
}

func (s *uploadStore) note(format string, args ...any) {
	s.requests = append(s.requests, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func fail(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0"?><Error><Code>%s</Code><Message>m</Message></Error>`, code)
}

func upload(t *testing.T, b *s3.Bucket) error {
	t.Helper()
	u, err := b.Create(t.Context(), "k")
	require.NoError(t, err)
	require.NoError(t, u.Part(t.Context(), 1, 0, objstore.NewBody([]byte("by"), []byte("tes"))))
	return u.Complete(t.Context())
}

func TestUpload_OnTheWire(t *testing.T) {
	store := &uploadStore{}
	require.NoError(t, upload(t, serve(t, store.ServeHTTP)))
	require.Equal(t, []string{
		"create CRC32C FULL_OBJECT", "part 1 UNSIGNED-PAYLOAD bytes", `complete "*"`,
	}, store.requests)
}

func TestUpload_StoreWithoutConditionalComplete(t *testing.T) {
	store := &uploadStore{}
	store.complete = func(w http.ResponseWriter, condition string) {
		if condition != "" {
			fail(w, http.StatusNotImplemented, "NotImplemented")
			return
		}
		fmt.Fprint(w, `<CompleteMultipartUploadResult><ETag>"whole"</ETag></CompleteMultipartUploadResult>`)
	}
	b := serve(t, store.ServeHTTP)
	require.NoError(t, upload(t, b))
	require.Equal(t, []string{`complete "*"`, "head", `complete ""`}, store.requests[2:])
	store.requests, store.taken = nil, true
	require.ErrorIs(t, upload(t, b), objstore.ErrAlreadyExists)
	require.Equal(t, []string{"head"}, store.requests[2:], "the store's answer is remembered")
}

// TestUpload_CompleteErrors includes those that come after a 200: the store sends the status before it has joined the
// parts.
func TestUpload_CompleteErrors(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		want   error
	}{
		{200, "InternalError", objstore.ErrOutcomeUnknown},
		{200, "SlowDown", objstore.ErrThrottled},
		{200, "PreconditionFailed", objstore.ErrAlreadyExists},
		{412, "PreconditionFailed", objstore.ErrAlreadyExists},
		{409, "ConditionalRequestConflict", objstore.ErrConflict},
		{404, "NoSuchUpload", objstore.ErrNotFound},
		{500, "InternalError", objstore.ErrOutcomeUnknown},
	} {
		store := &uploadStore{complete: func(w http.ResponseWriter, _ string) { fail(w, c.status, c.code) }}
		require.ErrorIs(t, upload(t, serve(t, store.ServeHTTP)), c.want, "%d %s", c.status, c.code)
	}
}

func TestUploads_LeaveOutAKeyThatMayGoOn(t *testing.T) {
	b := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `<ListMultipartUploadsResult><IsTruncated>true</IsTruncated>`)
		for _, key := range []string{"a", "b", "b"} {
			fmt.Fprintf(w, `<Upload><Key>%s</Key><UploadId>1</UploadId></Upload>`, key)
		}
		fmt.Fprint(w, `</ListMultipartUploadsResult>`)
	})
	page, err := b.Uploads(t.Context(), "", "", 3)
	require.NoError(t, err)
	require.Len(t, page, 1)
	require.Equal(t, "a", page[0].Key)
}
