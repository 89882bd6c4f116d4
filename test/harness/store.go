package harness

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// StoreFault is an answer of a FaultyStore. The server behind it does not see the request.
type StoreFault struct {
	Status int    // 200 means an empty object
	Code   string // of the S3 error, such as AccessDenied; for a Status other than 200
}

// FaultyStore is a proxy before the S3 server of a cluster. It passes requests on until a test sets a fault. Set Front as
// ClusterConfig.Front.
type FaultyStore struct {
	t testing.TB

	mu struct {
		sync.Mutex
		faults map[string]StoreFault // by the end of the key
		hits   map[string]int        // requests that met a fault, by the same
		ahead  time.Duration
	}
}

// NewFaultyStore returns a store without faults.
func NewFaultyStore(t testing.TB) *FaultyStore {
	t.Helper()
	s := &FaultyStore{t: t}
	s.mu.faults, s.mu.hits = map[string]StoreFault{}, map[string]int{}
	return s
}

// Front starts the proxy before the S3 server, and returns the proxy's address. Other processes keep theirs.
func (s *FaultyStore) Front(process, address string) string {
	s.t.Helper()
	if process != "s3" {
		return address
	}
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: address})
			r.Out.Host = r.In.Host // the signature covers it
		},
		ModifyResponse: s.setDate,
		// Processes that end cut their requests off.
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fault, ok := s.hit(r)
		if !ok {
			forward.ServeHTTP(w, r)
			return
		}
		fault.answer(w)
	}))
	s.t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// Fail answers all requests for keys with the suffix with the fault, until Heal.
func (s *FaultyStore) Fail(suffix string, fault StoreFault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.faults[suffix] = fault
}

// Heal ends the fault of a suffix, and returns the number of requests that met the fault.
func (s *FaultyStore) Heal(suffix string) (hits int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hits = s.mu.hits[suffix]
	delete(s.mu.faults, suffix)
	delete(s.mu.hits, suffix)
	return hits
}

// SetAhead moves the Date headers of later answers into the future, or into the past if ahead is negative.
func (s *FaultyStore) SetAhead(ahead time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.ahead = ahead
}

func (s *FaultyStore) hit(r *http.Request) (StoreFault, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for suffix, fault := range s.mu.faults {
		if strings.HasSuffix(r.URL.Path, suffix) {
			s.mu.hits[suffix]++
			return fault, true
		}
	}
	return StoreFault{}, false
}

func (s *FaultyStore) setDate(r *http.Response) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.ahead != 0 {
		r.Header.Set("Date", time.Now().Add(s.mu.ahead).UTC().Format(http.TimeFormat))
	}
	return nil
}

func (f StoreFault) answer(w http.ResponseWriter) {
	if f.Status == http.StatusOK {
		w.Header().Set("Content-Length", "0")
		w.Header().Set("ETag", `"d41d8cd98f00b204e9800998ecf8427e"`)
		return
	}
	body := `<?xml version="1.0" encoding="UTF-8"?><Error><Code>` + f.Code + `</Code><Message>a test's fault</Message></Error>`
	w.Header().Set("Content-Type", "application/xml")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(f.Status)
	_, _ = w.Write([]byte(body)) // a process may have ended
}
