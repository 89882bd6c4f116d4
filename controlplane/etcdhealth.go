package controlplane

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/freshet-io/freshet/internal/grpcerr"
	"github.com/freshet-io/freshet/metadata/metalog/etcdlog"
)

// memberTimeout bounds the status request to one etcd member after a failed round of members.
const memberTimeout = time.Second

// etcdHealth has the outcome of the rounds of members, the only requests to etcd that every replica makes all the time. It names the
// members behind a failure and its duration, for /readyz, logs and agents.
type etcdHealth struct {
	client *clientv3.Client
	secure *tls.Config // of client; nil for none
	mu     struct {
		sync.Mutex
		answered time.Time // end of the last successful round; the start of the process before the first
		fault    string    // of the last round, without its duration; "" after a success
	}
}

func newEtcdHealth(client *clientv3.Client, secure *tls.Config) *etcdHealth {
	h := &etcdHealth{client: client, secure: secure}
	h.mu.answered = time.Now()
	return h
}

// succeeded notes a successful round. It returns the time since the round before if that one failed, else 0.
func (h *etcdHealth) succeeded() (away time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.fault != "" {
		away = time.Since(h.mu.answered)
	}
	h.mu.answered, h.mu.fault = time.Now(), ""
	return away
}

// failed notes the error of a round, and asks every member for its status to name the cause. It reports whether the cause may be that
// etcd is still starting.
func (h *etcdHealth) failed(ctx context.Context, err error) (starting bool) {
	fault := h.diagnose(ctx, err)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.fault = fault
	return !strings.Contains(fault, "tls: ") && !strings.Contains(fault, "refuses requests")
}

// fault returns the failure of the last round with the time since the last answer, or nil.
func (h *etcdHealth) fault() error {
	_, fault := h.faultSince()
	return fault
}

// faultSince returns the time of the last answer, and fault.
func (h *etcdHealth) faultSince() (answered time.Time, fault error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.fault == "" {
		return h.mu.answered, nil
	}
	return h.mu.answered, fmt.Errorf("%s, %d s", h.mu.fault, int64(time.Since(h.mu.answered).Round(time.Second)/time.Second))
}

// silent reports whether a round of members is overdue. A tenure is lost then because etcd did not answer.
func (h *etcdHealth) silent() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Since(h.mu.answered) > readMembers+memberTimeout
}

// addresses returns host:port of all members. The client of an embedded member has none.
func (h *etcdHealth) addresses() string {
	endpoints := h.client.Endpoints()
	if len(endpoints) == 0 {
		return "embedded"
	}
	all := make([]string, len(endpoints))
	for i, endpoint := range endpoints {
		all[i] = etcdlog.Address(endpoint)
	}
	return strings.Join(all, ", ")
}

// diagnose returns the cause of a failed round in words. It takes at most memberTimeout and dialTimeout.
func (h *etcdHealth) diagnose(ctx context.Context, round error) string {
	endpoints := h.client.Endpoints()
	if len(endpoints) == 0 {
		return "embedded etcd does not answer: " + grpcerr.Plain(round).Error()
	}
	answers := make([]*clientv3.StatusResponse, len(endpoints))
	silent := make([]string, len(endpoints)) // address and cause of a member that does not answer
	var asked sync.WaitGroup
	for i, endpoint := range endpoints {
		asked.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, memberTimeout)
			defer cancel()
			var err error
			if answers[i], err = h.client.Status(ctx, endpoint); err != nil && etcdlog.TimedOut(err) {
				silent[i] = etcdlog.Address(endpoint) + h.unreached(etcdlog.Address(endpoint))
			}
		})
	}
	asked.Wait()
	silent = slices.DeleteFunc(silent, func(s string) bool { return s == "" })
	led := slices.ContainsFunc(answers, func(a *clientv3.StatusResponse) bool { return a != nil && a.Leader != 0 })
	switch {
	case len(silent) > 0:
		return "etcd at " + strings.Join(silent, ", ") + " does not answer"
	case !led && slices.ContainsFunc(answers, func(a *clientv3.StatusResponse) bool { return a != nil }):
		return "etcd at " + h.addresses() + " has no leader"
	case etcdlog.TimedOut(round):
		return "etcd at " + h.addresses() + " answers, and this replica waits for its lease"
	}
	return "etcd at " + h.addresses() + " refuses requests (" + grpcerr.Plain(round).Error() + ")"
}

// dialTimeout bounds the connection to a member that did not answer.
const dialTimeout = 500 * time.Millisecond

// unreached returns in parentheses why an address accepts no connection, or "" if it accepts one. etcd's client keeps that to itself.
func (h *etcdHealth) unreached(address string) string {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	err := h.connect(ctx, address)
	var name *net.DNSError
	var number syscall.Errno
	switch {
	case err == nil || ctx.Err() != nil:
		return ""
	case errors.As(err, &name):
		return " (" + name.Err + ")"
	case errors.As(err, &number):
		return " (" + number.Error() + ")"
	case strings.Contains(err.Error(), "tls: "):
		return " (" + err.Error() + ")"
	}
	return ""
}

// connect opens a connection to an address and closes it. With TLS, it waits for the first byte after the handshake until ctx ends,
// because a server refuses a client's certificate then.
func (h *etcdHealth) connect(ctx context.Context, address string) error {
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer raw.Close()
	if h.secure == nil {
		return nil
	}
	cfg := h.secure.Clone()
	if cfg.ServerName == "" {
		cfg.ServerName, _, _ = net.SplitHostPort(address)
	}
	conn := tls.Client(raw, cfg)
	if err := conn.HandshakeContext(ctx); err != nil {
		return err
	}
	deadline, _ := ctx.Deadline()
	_ = conn.SetReadDeadline(deadline)
	_, err = conn.Read(make([]byte, 1))
	return err
}
