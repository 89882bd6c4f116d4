package zone

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/internal/wait"
)

// ZoneLabel is the label of a Kubernetes node that has its zone.
const ZoneLabel = "topology.kubernetes.io/zone"

// serviceAccount is where Kubernetes mounts a pod's token and the API server's certificates.
const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

// Bounds of the question to the API server. It is asked again after failures that may pass: it may be starting, or its network may.
const (
	apiTimeout  = 5 * time.Second // of each attempt
	apiPatience = 30 * time.Second
	apiPause    = 250 * time.Millisecond // after the first attempt; it doubles
	apiMaxPause = 4 * time.Second
	maxToken    = 64 << 10 // bytes
)

// errAway is returned for a failure that may pass: no connection, 429, 5xx or a broken answer.
var errAway = errors.New("API server gave no answer")

// node asks the API server for the zone of the pod's node. Errors: ErrNone if the node has no zone.
func (d *Detector) node(ctx context.Context) (string, error) {
	host := d.Getenv("KUBERNETES_SERVICE_HOST")
	if host == "" {
		return "", fmt.Errorf("%w: --node-name %s is set, but KUBERNETES_SERVICE_HOST is not: remove it outside of a pod", ErrUnknown, d.Node)
	}
	client, err := d.apiClient()
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	defer client.CloseIdleConnections()
	address := "https://" + net.JoinHostPort(host, d.Getenv("KUBERNETES_SERVICE_PORT")) + "/api/v1/nodes/" + url.PathEscape(d.Node)
	ctx, cancel := context.WithTimeout(ctx, d.Patience)
	defer cancel()
	for pause := apiPause; ; pause = min(2*pause, apiMaxPause) {
		zone, err := d.ask(ctx, client, address)
		switch {
		case err == nil || errors.Is(err, ErrNone):
			return zone, err
		case !errors.Is(err, errAway):
			return "", fmt.Errorf("%w: %w", ErrUnknown, err)
		}
		if pause == apiPause {
			d.Log.Warn("zone of the node is not known yet, asking again", zap.Error(err))
		}
		if wait.For(ctx, pause) != nil {
			return "", fmt.Errorf("%w: %w, tried for %v: does a network policy keep the pod from it?", ErrUnknown, err, d.Patience)
		}
	}
}

// apiClient trusts the certificates of the service account alone.
func (d *Detector) apiClient() (*http.Client, error) {
	ca, err := os.ReadFile(filepath.Join(d.ServiceAccount, "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("read the API server's certificates: %w: set automountServiceAccountToken of the pod", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("no certificate in %s", filepath.Join(d.ServiceAccount, "ca.crt"))
	}
	return &http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// ask makes one attempt. It reads the token anew, since Kubernetes renews it.
func (d *Detector) ask(ctx context.Context, client *http.Client, address string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	token, err := d.token()
	if err != nil {
		return "", err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", fmt.Errorf("address of the API server: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	// Labels without the node's status, which is long.
	r.Header.Set("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json")
	response, err := client.Do(r)
	if err != nil {
		if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); untrusted {
			return "", fmt.Errorf("API server's certificate is not signed by %s: %w", filepath.Join(d.ServiceAccount, "ca.crt"), err)
		}
		return "", fmt.Errorf("%w: %w", errAway, err)
	}
	defer func() { _ = response.Body.Close() }()
	if err := d.refused(response); err != nil {
		return "", err
	}
	var node struct {
		Metadata struct{ Labels map[string]string }
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(&node); err != nil {
		return "", fmt.Errorf("%w: read node %s: %w", errAway, d.Node, err)
	}
	zone, err := named(node.Metadata.Labels[ZoneLabel])
	if err != nil {
		return "", fmt.Errorf("%w: node %s has no label %s", ErrNone, d.Node, ZoneLabel)
	}
	return zone, nil
}

func (d *Detector) token() (string, error) {
	path := filepath.Join(d.ServiceAccount, "token")
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read the pod's token: %w: set automountServiceAccountToken of the pod", err)
	}
	defer f.Close()
	token, err := io.ReadAll(io.LimitReader(f, maxToken))
	if err != nil {
		return "", fmt.Errorf("read the pod's token %s: %w", path, err)
	}
	return string(bytes.TrimSpace(token)), nil
}

// refused returns why the API server does not answer with the node, nil if it does.
func (d *Detector) refused(response *http.Response) error {
	switch code := response.StatusCode; {
	case code == http.StatusOK:
		return nil
	case code == http.StatusForbidden:
		return fmt.Errorf("the pod's service account may not read node %s: bind it to a ClusterRole that allows get on nodes", d.Node)
	case code == http.StatusUnauthorized:
		return fmt.Errorf("API server does not know the pod's token %s: mount the service account's own", filepath.Join(d.ServiceAccount, "token"))
	case code == http.StatusNotFound:
		return fmt.Errorf("there is no node %s: set FRESHET_NODE_NAME to the pod's spec.nodeName by the downward API", d.Node)
	case code == http.StatusTooManyRequests || code >= http.StatusInternalServerError:
		return fmt.Errorf("%w: %s", errAway, response.Status)
	default:
		return fmt.Errorf("API server answers %s for node %s", response.Status, d.Node)
	}
}
