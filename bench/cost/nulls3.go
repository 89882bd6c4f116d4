package cost

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet-io/freshet/bench/plane"
	"github.com/freshet-io/freshet/objstore/marker"
)

// NullS3 is an S3 endpoint that forgets: a PUT is read and counted, its bytes are thrown away. Head answers what was
// put (size and checksum), so that a client can resolve a lost answer. Get finds the marker of a virtual cluster alone, List
// nothing. A create-only PUT replaces nothing: agents end at a store that does.
type NullS3 struct {
	puts, gets, bytes atomic.Int64

	mu struct {
		sync.Mutex
		objects map[string]nullObject
		marker  []byte // the last one put
	}
}

// isMarker reports whether a path is that of a virtual cluster's marker.
func isMarker(path string) bool { return strings.HasSuffix(path, "/"+marker.Key(plane.VirtualCluster)) }

type nullObject struct {
	size int64
	crc  string
}

// NullS3Counts are the requests and body bytes seen so far.
type NullS3Counts struct {
	Puts  int64 `json:"puts"`
	Gets  int64 `json:"gets"`
	Bytes int64 `json:"bytes"`
}

// NewNullS3 gives an endpoint without objects.
func NewNullS3() *NullS3 {
	s := &NullS3{}
	s.mu.objects = make(map[string]nullObject)
	return s
}

// Counts gives the requests seen so far.
func (s *NullS3) Counts() NullS3Counts {
	return NullS3Counts{Puts: s.puts.Load(), Gets: s.gets.Load(), Bytes: s.bytes.Load()}
}

// ServeHTTP answers path-style S3 requests and GET /counts.
func (s *NullS3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/counts":
		s.serveCounts(w)
	case isMarker(r.URL.Path):
		s.serveMarker(w, r)
	case r.Method == http.MethodPut:
		s.servePut(w, r)
	case r.Method == http.MethodHead:
		s.serveHead(w, r)
	case r.Method == http.MethodGet && r.URL.Query().Has("list-type"):
		w.Header().Set("Content-Type", "application/xml")
		_, _ = io.WriteString(w, xml.Header+`<ListBucketResult><IsTruncated>false</IsTruncated><KeyCount>0</KeyCount></ListBucketResult>`)
	case r.Method == http.MethodGet:
		s.gets.Add(1)
		http.Error(w, xml.Header+`<Error><Code>NoSuchKey</Code></Error>`, http.StatusNotFound)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

func (s *NullS3) servePut(w http.ResponseWriter, r *http.Request) {
	buf := discardBuffers.Get().(*[256 << 10]byte)
	defer discardBuffers.Put(buf)
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, r.Body, buf[:])
	if err != nil {
		return // the client went away; there is nobody to answer
	}
	s.puts.Add(1)
	s.bytes.Add(n)
	if !s.put(r.URL.Path, nullObject{size: n, crc: r.Header.Get("X-Amz-Checksum-Crc32c")}, r.Header.Get("If-None-Match") != "") {
		http.Error(w, xml.Header+`<Error><Code>PreconditionFailed</Code></Error>`, http.StatusPreconditionFailed)
		return
	}
	w.Header().Set("ETag", `"null"`)
}

func (s *NullS3) serveMarker(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.Method == http.MethodPut:
		s.mu.marker, _ = io.ReadAll(r.Body)
	case s.mu.marker == nil:
		http.Error(w, xml.Header+`<Error><Code>NoSuchKey</Code></Error>`, http.StatusNotFound)
	default:
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(s.mu.marker))
	}
}

// put notes an object, and reports whether it did: with createOnly it replaces none.
func (s *NullS3) put(path string, object nullObject, createOnly bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.mu.objects[path]; taken && createOnly {
		return false
	}
	s.mu.objects[path] = object
	return true
}

func (s *NullS3) serveHead(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	object, ok := s.mu.objects[r.URL.Path]
	s.mu.Unlock()
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Length", strconv.FormatInt(object.size, 10))
	w.Header().Set("X-Amz-Checksum-Crc32c", object.crc)
}

func (s *NullS3) serveCounts(w http.ResponseWriter) {
	c := s.Counts()
	fmt.Fprintf(w, `{"puts":%d,"gets":%d,"bytes":%d}`, c.Puts, c.Gets, c.Bytes)
}

var discardBuffers = sync.Pool{New: func() any { return new([256 << 10]byte) }}

// checksumHeader is the value S3 wants in x-amz-checksum-crc32c.
func checksumHeader(crc uint32) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc))
}
