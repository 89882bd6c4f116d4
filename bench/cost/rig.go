package cost

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/freshet-io/freshet/bench/process"
)

const (
	rigTopic = "cost"
	// warmBytes of the topic are what fetch rounds read again and again: less than the agent's cache holds.
	warmBytes = 96 << 20
)

// rig is everything running for one shape: two null endpoints, the floor, and the agent with its control plane.
type rig struct {
	cfg       Config
	shape     Shape
	cert      certificate
	client    *http.Client
	floorAddr string
	floor     *process.Process
	control   *process.Process
	agentAddr string
	agentHTTP string
	agent     *process.Process
	agentS3   string
	others    []*process.Process
	rounds    int // topics made so far
}

func newRig(ctx context.Context, cfg Config, shape Shape, dir string) (_ *rig, err error) {
	r := &rig{cfg: cfg, shape: shape, client: &http.Client{Transport: &http.Transport{TLSClientConfig: clientTLS()}}}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	if dir, err = os.MkdirTemp(dir, "shape-"); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	if shape.TLS {
		if r.cert, err = newCertificate(dir); err != nil {
			return nil, err
		}
	}
	floorS3, err := r.nullEndpoint(ctx)
	if err != nil {
		return nil, err
	}
	if r.agentS3, err = r.nullEndpoint(ctx); err != nil {
		return nil, err
	}
	if r.floor, r.floorAddr, err = process.StartRole(ctx, roleCommand, roleFloor, floorRole{Endpoint: floorS3 + "/bucket", Cert: r.cert}); err != nil {
		return nil, err
	}
	return r, r.startAgent(ctx, dir)
}

func (r *rig) nullEndpoint(ctx context.Context) (string, error) {
	p, address, err := process.StartRole(ctx, roleCommand, roleNullS3, nullRole{Cert: r.cert})
	if err != nil {
		return "", err
	}
	r.others = append(r.others, p)
	if r.cert.enabled() {
		return "https://" + address, nil
	}
	return "http://" + address, nil
}

// close stops every process, the agent first so that it can say goodbye.
func (r *rig) close() {
	for _, p := range append([]*process.Process{r.agent, r.control, r.floor}, r.others...) {
		if p != nil {
			p.Stop()
		}
	}
}

func (r *rig) counts(ctx context.Context) (NullS3Counts, error) {
	return fetchCounts(ctx, r.client, r.agentS3)
}

// pair measures the floor, then the agent, at the same work.
func (r *rig) pair(ctx context.Context, floorKind, agentKind LoadKind) (pair, error) {
	floor, err := measure(ctx, r.floor, r.load(floorKind, r.floorAddr, r.cfg.Bytes))
	if err != nil {
		return pair{}, err
	}
	load := r.load(agentKind, r.agentAddr, r.cfg.Bytes)
	switch agentKind {
	case Produce:
		err = r.freshTopic(ctx)
	case Fetch:
		err = r.warmTopic(ctx)
	default: // the other kinds have their topic
	}
	if err != nil {
		return pair{}, err
	}
	load.Topic = r.topic()
	agent, err := measure(ctx, r.agent, load)
	return pair{floor: floor, agent: agent}, err
}

func (r *rig) load(kind LoadKind, address string, bytes int64) Load {
	return Load{
		Kind: kind, Address: address, TLS: r.shape.TLS, Bytes: bytes, Connections: r.cfg.Connections, Topic: r.topic(),
		Partitions: r.shape.Partitions, RecordBytes: r.shape.RecordBytes, BatchBytes: r.shape.BatchBytes, Linger: r.shape.Linger,
	}
}

func (r *rig) topic() string { return fmt.Sprintf("%s-%d", rigTopic, r.rounds) }

func (r *rig) freshTopic(ctx context.Context) error {
	r.rounds++
	client, err := kgo.NewClient(r.clientOptions()...)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	defer client.Close()
	_, err = kadm.NewClient(client).CreateTopic(ctx, int32(r.shape.Partitions), 1, nil, r.topic())
	if err != nil {
		return fmt.Errorf("create topic: %w", err)
	}
	return nil
}

// warmTopic fills a new topic with what fits the agent's cache; this is not measured.
func (r *rig) warmTopic(ctx context.Context) error {
	if err := r.freshTopic(ctx); err != nil {
		return err
	}
	_, err := measure(ctx, r.agent, r.load(Produce, r.agentAddr, min(warmBytes, r.cfg.Bytes)))
	return err
}

// steady produces at the set rate while a tail reads all of it, and gives the agent's peak memory of the whole run.
func (r *rig) steady(ctx context.Context) (memory int64, s steady, err error) {
	if err := r.freshTopic(ctx); err != nil {
		return 0, s, err
	}
	total := int64(r.cfg.Steady.Seconds() * float64(r.cfg.SteadyRate))
	in, out := r.load(Produce, r.agentAddr, total), r.load(Tail, r.agentAddr, total*98/100)
	in.Rate = r.cfg.SteadyRate
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() (err error) { s.in, err = measure(groupCtx, r.agent, in); return err })
	group.Go(func() (err error) { s.out, err = measure(groupCtx, r.agent, out); return err })
	if err := group.Wait(); err != nil {
		return 0, s, err
	}
	memory, err = r.agent.PeakMemory()
	return memory, s, err
}
