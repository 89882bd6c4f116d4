package cli

import (
	"context"
	"net/http/httptrace"
	"sync/atomic"
)

// TraceSent returns a context for one HTTP request, and a function that reports whether the server may have read a part of the request. It reports false
// before the client has a connection and, with TLS, has verified the server's certificate.
func TraceSent(ctx context.Context) (traced context.Context, sent func() bool) {
	var connected atomic.Bool // the trace may be called after the request has timed out
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}), connected.Load
}
