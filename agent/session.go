package agent

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/freshet-io/freshet/agent/cache"
	"github.com/freshet-io/freshet/agent/errand"
	"github.com/freshet-io/freshet/agent/job/runner"
	"github.com/freshet-io/freshet/agent/peer"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/agent/writer"
	"github.com/freshet-io/freshet/agent/zonewriter"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore/bundle"
)

// listeners tells the parts what the owner sends. It implements client.Handler; parts are set before the session runs.
type listeners struct {
	catalogue  *view.Catalogue
	partitions *view.Partitions
	writer     *writer.Writer
	route      *zonewriter.Route
	runner     *runner.Runner // nil without the jobs role
	errands    *errand.Runner
	// prefix of the virtual cluster's objects, from the newest Welcome. It never changes in a cluster's life; between
	// sessions the last one stands.
	prefix atomic.Pointer[string]
	secret peer.Secret // of this agent and the other agents, from the owner
	owned  *ownership
	left   atomic.Pointer[time.Time] // end of the newest stream; nil while there is one and before the first
}

// OnWelcome begins a stream.
func (l *listeners) OnWelcome(w *api.Welcome) {
	prefix := w.GetBundlePrefix()
	l.prefix.Store(&prefix)
	l.secret.Set(w.GetPeerSecret())
	l.left.Store(nil)
	l.owned.onWelcome(w)
	l.catalogue.OnWelcome(w)
	l.partitions.OnConnect()
	l.writer.OnWelcome(w)
}

// OnPeerSecret brings a new secret of the virtual cluster's agents.
func (l *listeners) OnPeerSecret(secret string) { l.secret.Set(secret) }

// OnCatalogue brings topics, members and configs.
func (l *listeners) OnCatalogue(c *api.Catalogue) { l.catalogue.OnCatalogue(c) }

// OnNotice brings what commits changed in partitions.
func (l *listeners) OnNotice(n *api.Notice) { l.partitions.OnNotice(n) }

// OnDisconnect ends the stream and its subscriptions.
func (l *listeners) OnDisconnect() {
	now := time.Now()
	l.left.Store(&now)
	l.partitions.OnDisconnect()
}

// away returns the time since the newest stream ended, 0 while there is one and before the first.
func (l *listeners) away() time.Duration {
	if left := l.left.Load(); left != nil {
		return time.Since(*left)
	}
	return 0
}

// OnSessionClosed ends the session.
func (l *listeners) OnSessionClosed() {
	l.partitions.OnSessionClosed()
	l.writer.OnSessionClosed()
	l.route.OnSessionClosed()
}

// OnZoneWriter brings the zone's writer, and this agent's part of the PUT budget.
func (l *listeners) OnZoneWriter(z *api.ZoneWriter) {
	l.route.OnZoneWriter(z)
	l.writer.OnZoneWriter(z)
}

// key names a bundle's object. Nothing is read before the first Welcome: no plan names a bundle.
func (l *listeners) key(b id.Bundle) string { return bundle.Key(l.bundlePrefix(), b) }

// bundlePrefix is the prefix of the virtual cluster's objects, "" before the first Welcome.
func (l *listeners) bundlePrefix() string {
	if prefix := l.prefix.Load(); prefix != nil {
		return *prefix
	}
	return ""
}

// sink gives committed bundles to the cache.
type sink struct{ cache *cache.Cache }

// OnCommitted implements writer.Sink.
func (s sink) OnCommitted(b *writer.Committed) { s.cache.Put(b.ID, b) }

// ownFirst is the cache, except that a bundle which this agent is just handing over is waited for and not read from
// the object store: the owner's notice of a commit can overtake the writer's last step.
type ownFirst struct {
	*cache.Cache
	agent *Agent
}

// ReadPart implements fetch.Bytes.
func (o ownFirst) ReadPart(ctx context.Context, p cache.Part, class cache.Class) (*cache.Bytes, error) {
	if _, err := o.agent.awaitHandOver(ctx, p.Extent.Bundle); err != nil {
		return nil, err
	}
	return o.Cache.ReadPart(ctx, p, class)
}

// Start implements fetch.Bytes.
func (o ownFirst) Start(e *extent.Extent, class cache.Class) {
	if _, ok := o.agent.writer.Settling(e.Bundle); !ok {
		o.Cache.Start(e, class)
	}
}

// awaitHandOver waits, for at most Config.HandOver, until this agent's writer has handed a bundle to the cache. done reports
// whether the hand-over has ended. An error is the context's.
func (a *Agent) awaitHandOver(ctx context.Context, b id.Bundle) (done bool, err error) {
	settled, ok := a.writer.Settling(b)
	if !ok {
		return true, nil
	}
	timer := time.NewTimer(a.cfg.HandOver)
	defer timer.Stop()
	select {
	case <-settled:
		return true, nil
	case <-timer.C:
		return false, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}
