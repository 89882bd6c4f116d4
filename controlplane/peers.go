package controlplane

import (
	"context"
	"crypto/tls"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/operator"
	"github.com/freshet-io/freshet/internal/grpcerr"
)

// Bounds of the watch of other replicas.
const (
	peerPause   = 2 * time.Second  // between two rounds of questions
	peerTimeout = time.Second      // of a question
	peerMemory  = 10 * time.Minute // time for which a replica is remembered after its lease has ended
	maxPeers    = 64               // replicas that are watched or remembered
)

// lapseSilence returns the minimum silence of a killed replica when its lease ends. The replica renewed the lease at most a tenth of its term
// before its end. A replica that stops in good order removes its key sooner: within 3 s of its last answer.
func lapseSilence(lease time.Duration) time.Duration { return lease * 4 / 5 }

// peers asks the other replicas whether they run, for operators. Nothing is decided by the answers.
type peers struct {
	members *members
	lapse   time.Duration // lapseSilence
	ask     func(ctx context.Context, address string) (*api.ClockResponse, error)

	mu struct {
		sync.Mutex
		known map[string]*peer // by address
	}
}

// peer is another replica.
type peer struct {
	member
	version string
	http    string    // address of its HTTP side
	began   time.Time // start of its process, by this machine's clock; zero: unknown
	heard   time.Time // its last answer; when it was first seen if it has not answered yet
	fault   string    // of the last question; "" if it was answered
	refuses bool      // fault is a refusal of the key
	gone    bool      // its lease has ended
}

func newPeers(r *members, lease time.Duration, secure *tls.Config) *peers {
	p := &peers{members: r, lapse: lapseSilence(lease), ask: func(ctx context.Context, address string) (*api.ClockResponse, error) {
		return askReplica(ctx, address, r.replicaKey(), secure)
	}}
	p.mu.known = map[string]*peer{}
	return p
}

// run asks until ctx ends.
func (p *peers) run(ctx context.Context) error {
	tick := time.NewTicker(peerPause)
	defer tick.Stop()
	for {
		p.round(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// round asks each registered replica once.
func (p *peers) round(ctx context.Context) {
	var asked sync.WaitGroup
	for _, r := range p.update(time.Now()) {
		asked.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, peerTimeout)
			defer cancel()
			answer, err := p.ask(ctx, r.address)
			p.note(r.address, answer, err)
		})
	}
	asked.Wait()
}

// update compares the known replicas with the registered ones, and returns those to ask.
func (p *peers) update(now time.Time) (registered []member) {
	// A registration with this replica's own ID is of an earlier process, until its lease ends.
	registered = slices.DeleteFunc(slices.Clone(p.members.others()), func(r member) bool { return r.id == p.members.replica })
	registered = registered[:min(len(registered), maxPeers)]
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, known := range p.mu.known {
		known.gone = true
	}
	for _, r := range registered {
		known := p.mu.known[r.address]
		if known == nil {
			known = &peer{heard: now}
			p.mu.known[r.address] = known
		}
		known.member, known.gone = r, false
	}
	for address, known := range p.mu.known {
		restarted := slices.ContainsFunc(registered, func(r member) bool { return r.id == known.id })
		silence := now.Sub(known.heard)
		if known.gone && (restarted || silence < p.lapse || silence > peerMemory) {
			delete(p.mu.known, address)
		}
	}
	for len(p.mu.known) > maxPeers {
		oldest := slices.MinFunc(slices.Collect(maps.Values(p.mu.known)), func(a, b *peer) int { return a.heard.Compare(b.heard) })
		delete(p.mu.known, oldest.address)
	}
	return registered
}

// note takes the outcome of a question. An older replica answers without its version.
func (p *peers) note(address string, answer *api.ClockResponse, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.mu.known[address]
	if known == nil {
		return
	}
	known.fault, known.refuses = "", false
	if err != nil {
		code := status.Code(err)
		if code != codes.DeadlineExceeded { // else the silence says it
			known.fault = grpcerr.Plain(err).Error()
		}
		if _, reason, ok := strings.Cut(known.fault, ": connect: "); ok { // the address is known
			known.fault = reason
		}
		if code == codes.Unavailable || code == codes.DeadlineExceeded || code == codes.Canceled {
			return
		}
		known.refuses = code == codes.Unauthenticated || code == codes.PermissionDenied
	} else {
		known.version, known.http = answer.Version, answer.HttpAddress
		if answer.UptimeMs != nil {
			known.began = time.Now().Add(-time.Duration(*answer.UptimeMs) * time.Millisecond)
		}
	}
	known.heard = time.Now()
}

// restarted reports whether a process with the replica's ID began after the last answer of this one. The earlier process stays registered
// until its lease ends. Called with mu held.
func (p *peers) restarted(earlier *peer) bool {
	for _, known := range p.mu.known {
		if known.id == earlier.id && known.began.After(earlier.heard) && !known.gone {
			return true
		}
	}
	return false
}

// list returns the known replicas, but not an earlier process of a replica that runs again.
func (p *peers) list(now time.Time) []operator.Replica {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]operator.Replica, 0, len(p.mu.known))
	for _, known := range p.mu.known {
		if now.Sub(known.heard) >= peerPause+peerTimeout && p.restarted(known) {
			continue
		}
		r := operator.Replica{
			Replica: known.id, Address: known.address, HTTP: known.http, Version: known.version, Silence: now.Sub(known.heard).Seconds(), Fault: known.fault,
			Refuses: known.refuses && !known.gone,
		}
		if !known.began.IsZero() && known.fault == "" && !known.gone {
			r.Uptime = ptr(now.Sub(known.began).Seconds())
		}
		all = append(all, r)
	}
	return all
}

func ptr[T any](v T) *T { return &v }
