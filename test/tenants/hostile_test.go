package tenants

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/test/harness"
)

const (
	hostileTime    = 12 * time.Second
	hostileStreams = 1000
	perConnection  = 50 // streams, below the server's bound
	largeBytes     = 64 << 20
	memoryLimit    = 512 << 20        // of a replica
	nowhere        = "no-such-tenant" // as long as the name of the quiet tenant
)

// TestTenants_Hostile attacks with the valid key of a virtual cluster: 1,000 streams, messages of 64 MiB, look-ups in a loop, Hello with session
// ids that other agents may have, answers to unknown errands, and commits of other sessions. The quiet tenant sees no error. No answer
// has a name, an id, a secret or an address of the quiet tenant. Answers about its name are those about a name that does not exist.
func TestTenants_Hostile(t *testing.T) {
	p := startPlane(t, "--memory-limit", fmt.Sprint(memoryLimit))
	q := p.startQuiet(t, "a-quiet-tenant")
	v, err := p.create(t.Context(), "hostile")
	require.NoError(t, err)
	_, err = v.visit(t.Context())
	require.NoError(t, err)
	harness.During(4*time.Second, func() {})
	q.mark("alone")
	before, _ := p.goroutines(t)

	secret, err := p.directory.PeerSecret(t.Context(), q.id)
	require.NoError(t, err)
	h := &hostile{tenant: v, t: t, q: q, forbidden: []string{q.id, q.key, q.agent.Bootstrap, secret, "records"}, heard: map[string]int{}, owner: p.ownerAddress(t, v)}
	ctx, cancel := context.WithTimeout(t.Context(), hostileTime)
	defer cancel()
	var attackers sync.WaitGroup
	attack := func(n int, once func(context.Context, *rand.Rand)) {
		for i := range n {
			attackers.Go(func() {
				random := rand.New(rand.NewPCG(1, uint64(i)))
				for ctx.Err() == nil {
					once(ctx, random)
				}
			})
		}
	}
	var conns []*grpc.ClientConn
	for range hostileStreams / perConnection {
		conns = append(conns, dial(t, h.owner))
	}
	for i := range hostileStreams {
		attackers.Go(func() {
			for ctx.Err() == nil {
				h.idle(ctx, conns[i%len(conns)], i%4 > 0)
			}
		})
	}
	attack(4, h.large)
	attack(2, h.locate)
	attack(2, h.pages)
	attack(2, h.forgeHello)
	attack(2, h.forgeAnswers)
	attackers.Wait()
	q.mark("beside")
	for _, conn := range conns {
		conn.Close()
	}
	for _, what := range slices.Sorted(maps.Keys(h.heard)) {
		t.Logf("%6d × %s", h.heard[what], what)
	}
	for i, r := range p.ControlPlanes {
		require.True(t, r.Running(), "replica %d", i)
		t.Logf("replica %d: peak memory %d MiB, --memory-limit %d MiB", i, peak(t, r.PID())>>20, memoryLimit>>20)
	}
	p.awaitGoroutines(t, before, 0)
	q.end()
	q.mark("afterwards")
}

// ownerAddress returns the address of the owner of a virtual cluster.
func (p *plane) ownerAddress(t *testing.T, v *tenant) string {
	t.Helper()
	conn, err := v.owner(t.Context())
	require.NoError(t, err)
	return conn.Target()
}

// hostile is a tenant with a valid key that attacks.
type hostile struct {
	*tenant
	t         *testing.T
	q         *quiet
	owner     string   // address of its owner
	forbidden []string // texts of the quiet tenant

	mu    sync.Mutex
	heard map[string]int // answers by kind
}

// hear searches an answer for texts of the quiet tenant, and counts it.
func (h *hostile) hear(kind, answer string) {
	for _, text := range h.forbidden {
		if strings.Contains(answer, text) {
			h.t.Errorf("%s: the answer has %q of another tenant: %.500q", kind, text, answer)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard[kind]++
}

// hearError is hear for a call that failed before its answer.
func (h *hostile) hearError(kind string, err error) {
	what, text := answer(nil, err)
	h.hear(kind+": "+what, text)
}

// answer returns the kind of a call's answer, and the answer as text.
func answer(m proto.Message, err error) (kind, text string) {
	switch {
	case errors.Is(err, io.EOF):
		return "end", ""
	case err != nil:
		return status.Code(err).String(), status.Code(err).String() + " " + err.Error()
	}
	kind = "OK"
	if m, ok := m.(*api.ToAgent); ok && m.Items[0].GetRefused() != nil {
		kind = "Refused " + m.Items[0].GetRefused().Reason.String()
	}
	encoded, err := proto.Marshal(m)
	return kind, string(encoded) + fmt.Sprint(err)
}

// open opens a session stream and sends items behind a Hello, which the attack changes.
func (h *hostile) open(ctx context.Context, conn *grpc.ClientConn, change func(*api.Hello), items ...*api.AgentItem) (stream, error) {
	first := h.greeting()
	change(first)
	s, err := hello(ctx, conn, h.tenant, first)
	if err == nil && len(items) > 0 {
		err = s.Send(&api.ToOwner{Items: items})
	}
	return s, err
}

// listen reads a stream to its end, at most so many messages.
func (h *hostile) listen(kind string, s stream, most int) {
	for range most {
		m, err := s.Recv()
		what, text := answer(m, err)
		h.hear(kind+": "+what, text)
		if err != nil {
			return
		}
	}
}

// idle is one of 1,000 streams, with a session of its own. Some streams never read beyond the first message.
func (h *hostile) idle(ctx context.Context, conn *grpc.ClientConn, reads bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := h.open(ctx, conn, func(*api.Hello) {})
	if err != nil {
		h.hearError("idle", err)
		return
	}
	if reads {
		h.listen("idle", s, 1<<30)
		return
	}
	h.listen("idle", s, 1)
	select {
	case <-ctx.Done():
	case <-time.After(4 * time.Second):
	}
}

// large sends a message of the maximum size, and one above.
func (h *hostile) large(ctx context.Context, random *rand.Rand) {
	body := make([]byte, largeBytes-1000+2000*random.IntN(2))
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	s, err := h.open(ctx, h.conn(random), func(*api.Hello) {},
		&api.AgentItem{Item: &api.AgentItem_Forward{Forward: &api.Forward{Request: 1, ApiKey: 3, ApiVersion: 12, Body: body}}})
	if err != nil {
		h.hearError("large", err)
		return
	}
	h.listen("large", s, 8)
}

// locate asks for the owner of the quiet tenant.
func (h *hostile) locate(ctx context.Context, random *rand.Rand) {
	conn := api.NewControlPlaneClient(h.conn(random))
	ask := func(name string) string {
		what, text := answer(conn.Locate(h.keyed(ctx), &api.LocateRequest{VirtualCluster: name}))
		h.hear("locate: "+what, strings.ReplaceAll(text, name, ""))
		return text
	}
	ask(h.name)
	there, absent := ask(h.q.name), ask(nowhere)
	// gRPC may see the end of the attack before the context does.
	ended := ctx.Err() != nil || slices.ContainsFunc([]string{there, absent}, func(text string) bool {
		return strings.HasPrefix(text, codes.DeadlineExceeded.String())
	})
	if !ended && strings.ReplaceAll(there, h.q.name, nowhere) != absent {
		h.t.Errorf("locate: %q of another tenant, %q of none", there, absent)
	}
}

// pages asks for what operators see, of the quiet tenant and its own.
func (h *hostile) pages(ctx context.Context, random *rand.Rand) {
	r := h.ControlPlanes[random.IntN(len(h.ControlPlanes))]
	for _, page := range []string{"zones", "jobs", "writers", "agents", "status", "deleted-topics", "bundles/1/1"} {
		ask := func(name string) string {
			code, body, err := fetch(ctx, r.HTTP+"/v1/clusters/"+name+"/"+page, h.key)
			if err != nil {
				return err.Error()
			}
			h.hear(fmt.Sprintf("page: %d", code), strings.ReplaceAll(body, name, ""))
			if code == http.StatusOK {
				h.t.Errorf("%s of %s answers an agent key", page, name)
			}
			return fmt.Sprint(code, body)
		}
		if there, absent := ask(h.q.name), ask(nowhere); ctx.Err() == nil && strings.ReplaceAll(there, h.q.name, nowhere) != absent {
			h.t.Errorf("%s: %q of another tenant, %q of none", page, there, absent)
		}
	}
}

// forgeHello says Hello as sessions of others, and to the quiet tenant.
func (h *hostile) forgeHello(ctx context.Context, random *rand.Rand) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	name := []string{"", h.q.name}[random.IntN(2)]
	s, err := h.open(ctx, h.conn(random), func(hello *api.Hello) {
		hello.VirtualCluster, hello.Session = name, random.Uint32N(64)
	})
	if err != nil {
		h.hearError("forged hello", err)
		return
	}
	m, err := s.Recv()
	what, text := answer(m, err)
	if name != "" && what == "OK" {
		h.t.Errorf("the key of %s opens a session of %s: %v", h.name, name, m)
	}
	h.hear("forged hello: "+what, strings.ReplaceAll(text, h.q.name, ""))
}

// forgeAnswers answers errands and jobs that were not given, and acts for sessions of others.
func (h *hostile) forgeAnswers(ctx context.Context, random *rand.Rand) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	other := random.Uint32N(64)
	s, err := h.open(ctx, h.conn(random), func(hello *api.Hello) { hello.Roles = []api.Role{api.Role_ROLE_JOBS} },
		&api.AgentItem{Item: &api.AgentItem_ErrandDone{ErrandDone: &api.ErrandDone{Id: random.Uint64(), Result: &api.ErrandDone_DeletedBundles{DeletedBundles: &api.DeletedBundles{}}}}},
		&api.AgentItem{Item: &api.AgentItem_ErrandDone{ErrandDone: &api.ErrandDone{Id: 1}}},
		&api.AgentItem{Item: &api.AgentItem_JobProgress{JobProgress: &api.JobProgress{Job: other, Bytes: 1 << 60}}},
		&api.AgentItem{Item: &api.AgentItem_CompleteJob{CompleteJob: &api.CompleteJob{Request: 1, Job: other, Outcome: []byte("forged"), Last: true}}},
		&api.AgentItem{Item: &api.AgentItem_AbortJob{AbortJob: &api.AbortJob{Request: 2, Job: other, Reason: "forged", Corrupt: []uint64{1<<32 | 1}}}},
		&api.AgentItem{Item: &api.AgentItem_Abandon{Abandon: &api.Abandon{Request: 3, N: 1, Session: other}}},
		&api.AgentItem{Item: &api.AgentItem_Commit{Commit: &api.Commit{Request: 4, Encoded: []byte("forged")}}},
		&api.AgentItem{Item: &api.AgentItem_Lookup{Lookup: &api.Lookup{Request: 5, Partitions: lookups(random)}}},
		&api.AgentItem{Item: &api.AgentItem_Forward{Forward: &api.Forward{Request: 6, ApiKey: 16, ApiVersion: 0}}},
		&api.AgentItem{Item: &api.AgentItem_Goodbye{Goodbye: &api.Goodbye{Request: 7}}},
	)
	if err != nil {
		h.hearError("forged answers", err)
		return
	}
	h.listen("forged answers", s, 64)
}

// lookups asks for 1,000 partitions of topics that do not exist.
func lookups(random *rand.Rand) (all []*api.PartitionLookup) {
	for range 1000 {
		topic := make([]byte, 16)
		for i := range topic {
			topic[i] = byte(random.Uint32())
		}
		all = append(all, &api.PartitionLookup{Topic: topic, Want: &api.PartitionLookup_ExtentsFrom{}, MaxExtents: 1 << 30, MaxBytes: 1 << 62, Subscribe: true})
	}
	return all
}

// conn returns a connection to the owner, or to the other replica.
func (h *hostile) conn(random *rand.Rand) *grpc.ClientConn { return h.conns[random.IntN(len(h.conns))] }
