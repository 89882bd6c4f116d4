package etcdlog

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// errNoClock is returned for an embedded etcd, which has no endpoint.
var errNoClock = errors.New("etcd has no endpoint that answers over HTTP")

// Now returns the time by etcd's clock: the Date header of the first endpoint that answers GET /version. All are asked at once.
// secure is the client's TLS configuration, or nil.
func Now(ctx context.Context, client *clientv3.Client, secure *tls.Config) (time.Time, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	transport := &http.Transport{TLSClientConfig: secure.Clone(), DisableKeepAlives: true}
	endpoints := client.Endpoints()
	type answer struct {
		at  time.Time
		err error
	}
	answers := make(chan answer, len(endpoints))
	for _, endpoint := range endpoints {
		go func() { // ends with ctx at the latest
			at, err := date(ctx, transport, versionURL(endpoint, secure != nil))
			answers <- answer{at, err}
		}()
	}
	err := errNoClock
	for range endpoints {
		a := <-answers
		if a.err == nil {
			return a.at, nil
		}
		err = a.err
	}
	return time.Time{}, err
}

// versionURL returns the URL of an endpoint's version, which etcd shows to clients without a user.
func versionURL(endpoint string, secure bool) string {
	if secure || strings.HasPrefix(endpoint, "https://") {
		return "https://" + Address(endpoint) + "/version"
	}
	return "http://" + Address(endpoint) + "/version"
}

// date returns the Date header of a GET.
func date(ctx context.Context, transport http.RoundTripper, url string) (time.Time, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return time.Time{}, fmt.Errorf("ask etcd for the time: %w", err)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return time.Time{}, fmt.Errorf("ask etcd for the time: %w", err)
	}
	response.Body.Close()
	at, err := http.ParseTime(response.Header.Get("Date"))
	if err != nil {
		return time.Time{}, fmt.Errorf("ask etcd for the time: Date header of %s: %w", url, err)
	}
	return at, nil
}
