package zone_test

import (
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/internal/zone"
)

// apiServer is a Kubernetes API server that answers by a function, once the request is the one for node n1 with the pod's token.
func apiServer(t *testing.T, answer http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer token-of-the-pod":
			w.WriteHeader(http.StatusUnauthorized)
		case r.Method+" "+r.URL.Path != "GET /api/v1/nodes/n1":
			w.WriteHeader(http.StatusNotFound)
		default:
			answer(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// pod is the Detector of a pod on node n1 whose API server is s.
func pod(t *testing.T, s *httptest.Server) zone.Detector {
	t.Helper()
	d := detector(t)
	d.Node, d.ServiceAccount, d.Patience = "n1", t.TempDir(), time.Minute
	host, port, err := net.SplitHostPort(s.Listener.Addr().String())
	require.NoError(t, err)
	d.Getenv = func(name string) string {
		return map[string]string{"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}[name]
	}
	write(t, d, "ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	write(t, d, "token", "token-of-the-pod\n")
	return d
}

func write(t *testing.T, d zone.Detector, name, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(d.ServiceAccount, name), []byte(content), 0o600))
}

func says(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }
}

func fails(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

const labelled = `{"kind":"PartialObjectMetadata","metadata":{"name":"n1","labels":{"topology.kubernetes.io/zone":"eu-1a","topology.kubernetes.io/region":"eu-1"}}}`

func TestDetect_ReadsTheLabelOfThePodsNode(t *testing.T) {
	got, err := pod(t, apiServer(t, says(labelled))).Detect(t.Context())
	require.NoError(t, err)
	require.Equal(t, "eu-1a", got)
}

func TestDetect_AsksAnAPIServerAgainThatIsAway(t *testing.T) {
	var asked atomic.Int32
	s := apiServer(t, func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			fails(http.StatusServiceUnavailable)(w, r)
			return
		}
		says(labelled)(w, r)
	})
	got, err := pod(t, s).Detect(t.Context())
	require.NoError(t, err)
	require.Equal(t, "eu-1a", got)
	require.Equal(t, int32(2), asked.Load())
}

func TestDetect_NodeWithoutZone(t *testing.T) {
	for _, body := range []string{`{"metadata":{"name":"n1"}}`, `{"metadata":{"labels":{"topology.kubernetes.io/zone":" "}}}`} {
		_, err := pod(t, apiServer(t, says(body))).Detect(t.Context())
		require.EqualError(t, err, "the platform names no availability zone: node n1 has no label topology.kubernetes.io/zone")
		require.ErrorIs(t, err, zone.ErrNone)
	}
}

// Each fault is one line with the remedy.
func TestDetect_KubernetesFaults(t *testing.T) {
	works := apiServer(t, says(labelled))
	for name, tt := range map[string]struct {
		server *httptest.Server
		change func(d *zone.Detector)
		says   string
	}{
		"403":          {apiServer(t, fails(http.StatusForbidden)), nil, "the pod's service account may not read node n1: bind it to a ClusterRole that allows get on nodes"},
		"no such node": {works, func(d *zone.Detector) { d.Node = "n/2" }, "there is no node n/2: set FRESHET_NODE_NAME to the pod's spec.nodeName by the downward API"},
		"redirect":     {apiServer(t, http.RedirectHandler("https://127.0.0.1:1/", http.StatusFound).ServeHTTP), nil, "API server answers 302 Found for node n1"},
		"wrong token":  {works, func(d *zone.Detector) { write(t, *d, "token", "old") }, "API server does not know the pod's token"},
		"no token": {
			works, func(d *zone.Detector) { require.NoError(t, os.Remove(filepath.Join(d.ServiceAccount, "token"))) },
			"token: no such file or directory: set automountServiceAccountToken of the pod",
		},
		"no certificates": {
			works, func(d *zone.Detector) { require.NoError(t, os.Remove(filepath.Join(d.ServiceAccount, "ca.crt"))) },
			"ca.crt: no such file or directory: set automountServiceAccountToken of the pod",
		},
		"broken certificates": {works, func(d *zone.Detector) { write(t, *d, "ca.crt", "none") }, "no certificate in "},
		"no node name": {
			works, func(d *zone.Detector) { d.Node = "" },
			"the pod's node is not known: set FRESHET_NODE_NAME to the pod's spec.nodeName by the downward API",
		},
		"no pod": {
			works, func(d *zone.Detector) { d.Getenv = func(string) string { return "" } },
			"--node-name n1 is set, but KUBERNETES_SERVICE_HOST is not: remove it outside of a pod",
		},
		"away for long": {
			apiServer(t, fails(http.StatusServiceUnavailable)), func(d *zone.Detector) { d.Patience = time.Millisecond },
			", tried for 1ms: does a network policy keep the pod from it?",
		},
		"endless answer": {
			apiServer(t, func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte(`{"metadata":{"name":"`))
				for err := error(nil); err == nil; {
					_, err = w.Write(make([]byte, 1<<16))
				}
			}), func(d *zone.Detector) { d.Patience = 100 * time.Millisecond },
			"API server gave no answer: read node n1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := pod(t, tt.server)
			if tt.change != nil {
				tt.change(&d)
			}
			_, err := d.Detect(t.Context())
			require.ErrorIs(t, err, zone.ErrUnknown)
			require.NotErrorIs(t, err, zone.ErrNone)
			require.ErrorContains(t, err, tt.says)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

// An API server that another authority certifies is not sent the token.
func TestDetect_NamesACertificateOfAnotherAuthority(t *testing.T) {
	d := pod(t, apiServer(t, says(labelled)))
	pem, err := os.ReadFile(testservers.NewTLSFiles(t).CA)
	require.NoError(t, err)
	write(t, d, "ca.crt", string(pem))
	_, err = d.Detect(t.Context())
	require.ErrorContains(t, err, "API server's certificate is not signed by ")
}
