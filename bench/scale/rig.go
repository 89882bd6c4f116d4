package scale

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/bench/cluster"
	"github.com/freshet-io/freshet/bench/process"
	"github.com/freshet-io/freshet/internal/wait"
)

// maxPartitions are created by one request at most, as brokers bound it.
const maxPartitions = 10_000

// rig is the cluster with its clients. Helpers are told what to do by HTTP.
type rig struct {
	cfg      *Config
	cluster  *cluster.Cluster
	produce  *process.Process
	idle     *process.Process
	produced string // addresses
	idled    string
	quiet    map[*cluster.Agent]float64 // cores, before a change
}

func (r *rig) close() {
	for _, p := range []*process.Process{r.idle, r.produce} {
		if p != nil {
			p.Stop()
		}
	}
}

// run goes through the phases: without many partitions and clients, with both, and with an agent coming and one going.
func (r *rig) run(ctx context.Context) (phases []phase, err error) {
	add := func(p phase, err error) error {
		phases = append(phases, p)
		return err
	}
	if err := r.startProducers(ctx); err != nil {
		return nil, err
	}
	if err := add(r.still(ctx, "few partitions, no clients")); err != nil {
		return nil, err
	}
	began := time.Now()
	if err := r.createTopics(ctx); err != nil {
		return nil, err
	}
	fmt.Fprintf(r.cfg.Out, "%d partitions created in %.1f s\n", r.cfg.Topics*r.cfg.Partitions, time.Since(began).Seconds())
	if err := add(r.still(ctx, "many partitions, no clients")); err != nil {
		return nil, err
	}
	began = time.Now()
	if err := r.startClients(ctx); err != nil {
		return nil, err
	}
	fmt.Fprintf(r.cfg.Out, "%d clients connected in %.1f s\n", r.cfg.Clients, time.Since(began).Seconds())
	if err := add(r.still(ctx, "with idle clients")); err != nil {
		return nil, err
	}
	if err := add(r.change(ctx, "an agent comes", func() error {
		_, err := r.cluster.StartAgent(ctx)
		return err
	})); err != nil {
		return nil, err
	}
	if err := add(r.still(ctx, "after that")); err != nil {
		return nil, err
	}
	err = add(r.change(ctx, "an agent goes", func() error {
		r.cluster.StopAgent(r.cluster.Agents()[0])
		return nil
	}))
	return phases, err
}

func (r *rig) startProducers(ctx context.Context) (err error) {
	r.produce, r.produced, err = process.StartRole(ctx, roleCommand, roleProducers, producers{Addresses: r.addresses(), Rate: r.cfg.Rate})
	return err
}

func (r *rig) startClients(ctx context.Context) (err error) {
	r.idle, r.idled, err = process.StartRole(ctx, roleCommand, roleClients, clients{
		Addresses: r.addresses(), Clients: r.cfg.Clients, Fetchers: r.cfg.Fetchers, Topics: r.cfg.Topics, Partitions: r.cfg.Partitions,
	})
	return err
}

func (r *rig) addresses() (list []string) {
	for _, a := range r.cluster.Agents() {
		list = append(list, a.Kafka)
	}
	return list
}

// topicName names the topics of idle clients.
func topicName(i int) string { return fmt.Sprintf("idle-%05d", i) }

func (r *rig) createTopics(ctx context.Context) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(r.addresses()...))
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	defer client.Close()
	each := maxPartitions / r.cfg.Partitions
	for from := 0; from < r.cfg.Topics; from += each {
		var names []string
		for i := from; i < min(from+each, r.cfg.Topics); i++ {
			names = append(names, topicName(i))
		}
		answers, err := kadm.NewClient(client).CreateTopics(ctx, int32(r.cfg.Partitions), -1, nil, names...)
		if err = errors.Join(err, answers.Error()); err != nil {
			return fmt.Errorf("create topics: %w", err)
		}
	}
	return nil
}

// usage is what processes have used so far.
type usage struct {
	at     time.Time
	owner  float64                    // CPU seconds
	agents map[*cluster.Agent]float64 // CPU seconds
}

func (r *rig) usage() (u usage, err error) {
	u = usage{at: time.Now(), agents: map[*cluster.Agent]float64{}}
	if u.owner, err = r.cluster.Control().CPU(); err != nil {
		return u, err
	}
	for _, a := range r.cluster.Agents() {
		if u.agents[a], err = a.CPU(); err != nil {
			return u, err
		}
	}
	return u, nil
}

// still measures while nothing changes.
func (r *rig) still(ctx context.Context, name string) (p phase, err error) {
	if err := wait.For(ctx, r.cfg.Settle); err != nil {
		return p, err
	}
	return r.measured(ctx, name, func() error { return wait.For(ctx, r.cfg.Duration) })
}

// change measures from the start of a change of the membership until every client has refreshed.
func (r *rig) change(ctx context.Context, name string, change func() error) (phase, error) {
	var done refreshed
	before := r.quiet
	p, err := r.measured(ctx, name, func() error {
		if err := change(); err != nil {
			return err
		}
		return r.ask(ctx, r.idled, "/refresh", url.Values{"window": {r.cfg.Window.String()}, "address": r.addresses()}, &done)
	})
	if err != nil {
		return p, err
	}
	if done.Failed > 0 || done.Answers < int64(r.cfg.Clients) {
		return p, fmt.Errorf("%s: %d of %d clients refreshed, %d failed: %s", name, done.Answers, r.cfg.Clients, done.Failed, done.Fault)
	}
	p.refreshed = &done
	for a, cores := range r.quiet {
		p.beyond = max(p.beyond, (cores-before[a])*p.seconds)
	}
	return p, nil
}

// measured gives what processes used, and what producers saw, while act ran.
func (r *rig) measured(ctx context.Context, name string, act func() error) (p phase, err error) {
	var forgotten produced
	if err := r.ask(ctx, r.produced, "/take", nil, &forgotten); err != nil {
		return p, err
	}
	before, err := r.usage()
	if err != nil {
		return p, err
	}
	if err := act(); err != nil {
		return p, fmt.Errorf("%s: %w", name, err)
	}
	after, err := r.usage()
	if err != nil {
		return p, err
	}
	p = phase{name: name, seconds: after.at.Sub(before.at).Seconds(), agents: len(after.agents)}
	p.owner = (after.owner - before.owner) / p.seconds
	r.quiet = map[*cluster.Agent]float64{}
	for a, cpu := range after.agents {
		r.quiet[a] = (cpu - before.agents[a]) / p.seconds
		p.agentCPU = max(p.agentCPU, r.quiet[a])
		memory, err := a.Memory()
		if err != nil {
			return p, err
		}
		p.agentBytes = max(p.agentBytes, memory)
	}
	if p.ownerBytes, err = r.cluster.Control().Memory(); err != nil {
		return p, err
	}
	return p, r.ask(ctx, r.produced, "/take", nil, &p.produced)
}

// ask has a helper do something and decodes its answer.
func (r *rig) ask(ctx context.Context, address, path string, query url.Values, answer any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+path+"?"+query.Encode(), http.NoBody)
	if err != nil {
		return fmt.Errorf("ask %s: %w", path, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("ask %s: %w", path, err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(answer); err != nil {
		return fmt.Errorf("answer to %s: %w", path, err)
	}
	return nil
}
