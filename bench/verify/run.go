package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/freshet-io/freshet/bench/verify/oracle"
	"github.com/freshet-io/freshet/internal/wait"
)

// Errors of a run.
var (
	// ErrFindings says that the run found faults; the report names them.
	ErrFindings = errors.New("faults were found")
	errShape    = errors.New("the answer is not about what was asked")
)

// run is one run.
type run struct {
	cfg      Config
	id       string // in the names of topics and groups
	number   uint64 // in records
	log      io.Writer
	findings *oracle.Findings
	topics   []*topic
	admin    *kadm.Client
	began    time.Time

	completed, commits, described atomic.Int64

	mu struct {
		sync.Mutex
		errors map[string]int64 // by what was done and the error
		said   sync.Mutex       // held while a line is written
	}
}

// Run checks a cluster until the duration is over or ctx ends, and reports. It gives ErrFindings if there were faults,
// and any other error if it could not run. Defaults are the caller's to apply.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	r := newRun(cfg)
	if err := r.connect(ctx); err != nil {
		return err
	}
	defer r.admin.Close()
	r.say("run %s, seed %d: %v at %v records a second", r.id, r.cfg.Seed, cfg.Duration, cfg.Rate)
	if err := r.work(ctx); err != nil {
		return err
	}
	r.nothingTested()
	report := r.report()
	if err := report.write(cfg.Out, cfg.JSON); err != nil {
		return err
	}
	if report.Findings > 0 {
		return fmt.Errorf("%w: %d", ErrFindings, report.Findings)
	}
	return nil
}

func newRun(cfg Config) *run {
	now := time.Now()
	if cfg.Seed == 0 {
		cfg.Seed = uint64(now.UnixNano())
	}
	r := &run{cfg: cfg, number: uint64(now.UnixNano()), id: strconv.FormatInt(now.UnixMilli(), 36), began: now, log: cfg.Out}
	if cfg.JSON {
		r.log = cfg.Err
	}
	r.mu.errors = make(map[string]int64)
	r.findings = oracle.NewFindings(time.Now, func(f oracle.Finding) { r.say("FAULT %s", f) })
	kinds := []string{plain}
	if cfg.Transactions {
		kinds = append(kinds, transactional)
	}
	for _, kind := range kinds {
		r.topics = append(r.topics, r.newTopic(kind))
	}
	return r
}

// connect reaches the cluster once and makes the topics.
func (r *run) connect(ctx context.Context) error {
	client, err := r.client()
	if err != nil {
		return err
	}
	r.admin = kadm.NewClient(client)
	reach, cancel := context.WithTimeout(ctx, r.cfg.Patience)
	defer cancel()
	if err := client.Ping(reach); err != nil {
		r.admin.Close()
		return fmt.Errorf("reach %v: %w", r.cfg.Bootstrap, err)
	}
	for _, t := range r.topics {
		if err := t.create(ctx); err != nil {
			r.admin.Close()
			return err
		}
	}
	return nil
}

// heartbeat is how soon members notice a rebalance.
const heartbeat = time.Second

// client makes a client with the user's options and those given. Its buffers are small: there are many clients.
func (r *run) client(more ...kgo.Opt) (*kgo.Client, error) {
	options := []kgo.Opt{
		kgo.SeedBrokers(r.cfg.Bootstrap...), kgo.ClientID("freshet-verify"), kgo.MetadataMinAge(250 * time.Millisecond),
		kgo.FetchMaxBytes(4 << 20), kgo.FetchMaxPartitionBytes(512 << 10), kgo.DialTimeout(5 * time.Second),
		kgo.HeartbeatInterval(heartbeat),
	}
	options = append(append(options, r.cfg.Options()...), more...)
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	return client, nil
}

// work does everything: producing until the duration is over or ctx ends, everything else until all is read.
func (r *run) work(ctx context.Context) error {
	producing, cancelProducing := context.WithTimeout(ctx, r.cfg.Duration)
	defer cancelProducing()
	reading, cancelReading := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelReading()
	producers, producing := errgroup.WithContext(producing)
	readers, reading := errgroup.WithContext(reading)
	seed := r.cfg.Seed
	random := func() *rand.Rand { seed++; return rand.New(rand.NewPCG(r.cfg.Seed, seed)) }
	for _, t := range r.topics {
		t.startProducers(producers, producing, random)
		t.startReaders(readers, reading, producing, random)
	}
	producers.Go(func() error { return r.progress(producing) })
	err := producers.Wait()
	if err == nil && reading.Err() == nil {
		r.say("producers have ended; reading the rest")
		for _, t := range r.topics {
			t.finish(reading)
		}
	}
	r.say("%v: all is read", r.elapsed())
	cancelReading()
	return errors.Join(err, readers.Wait(), r.clean(ctx))
}

func (t *topic) startProducers(all *errgroup.Group, ctx context.Context, random func() *rand.Rand) {
	for n := range int32(t.cfg.Producers) {
		rng := random()
		if t.txn {
			all.Go(func() error { return t.tell(ctx, n, rng) })
		} else {
			all.Go(func() error { return t.produce(ctx, n, rng) })
		}
	}
	all.Go(func() error { return t.passes(ctx) })
}

// startReaders starts what goes on until all is read; steady ends with the producers, and members stay from then on.
func (t *topic) startReaders(all *errgroup.Group, ctx, steady context.Context, random func() *rand.Rand) {
	all.Go(func() error { return t.follow(ctx) })
	rng := random()
	all.Go(func() error { return t.probe(ctx, rng) })
	all.Go(func() error { return t.judge(ctx) })
	for _, g := range t.groups {
		for range t.cfg.Members {
			rng := random()
			all.Go(func() error { return g.member(ctx, steady, rng) })
		}
		all.Go(func() error { return g.watch(ctx) })
	}
}

// judge finds what the first reader and the groups have passed over, while they go on.
func (t *topic) judge(ctx context.Context) error {
	for wait.For(ctx, t.cfg.Progress) == nil {
		t.first.Judge(false)
		for _, g := range t.groups {
			g.reader.Judge(false)
		}
	}
	return nil
}

// finish waits until everything is read, and judges.
func (t *topic) finish(ctx context.Context) {
	step := func(do func(context.Context)) {
		limited, cancel := context.WithTimeout(ctx, t.cfg.Patience)
		defer cancel()
		do(limited)
	}
	step(t.settle)
	t.say("%s: %v: producers have stopped for good", t.name, t.elapsed())
	readers := []*oracle.Reader{t.first}
	for _, g := range t.groups {
		readers = append(readers, g.reader)
	}
	step(func(ctx context.Context) {
		for _, r := range readers {
			for r.Behind() > 0 && wait.For(ctx, 200*time.Millisecond) == nil {
			}
			behind := r.Behind()
			if behind > 0 { // late, not lost: the last pass decides
				t.stuck("%s had %d records to read when the wait for it was over", r.Name, behind)
			}
			r.Judge(behind == 0)
		}
	})
	t.say("%s: %v: the first reader and the groups were waited for", t.name, t.elapsed())
	views := []oracle.View{oracle.Uncommitted}
	if t.txn {
		views = append(views, oracle.Committed)
	}
	for _, v := range views {
		step(func(ctx context.Context) {
			if err := t.pass(ctx, 0, v, true); err != nil {
				t.failed("last pass", err)
			}
		})
	}
}

func (r *run) elapsed() time.Duration { return time.Since(r.began).Round(time.Second) }

// clean removes what the run made.
func (r *run) clean(ctx context.Context) error {
	if r.cfg.Keep {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.Patience)
	defer cancel()
	for _, t := range r.topics {
		t.remove(ctx)
	}
	return nil
}

// mostErrors bounds how many different errors are counted apart.
const mostErrors = 100

// failed counts an error that the run gets over.
func (r *run) failed(doing string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	what := fmt.Sprintf("%s: %.160s", doing, anonymous(err.Error()))
	if _, known := r.mu.errors[what]; !known && len(r.mu.errors) >= mostErrors {
		what = "others"
	}
	r.mu.errors[what]++
}

// say writes one line of progress.
func (r *run) say(format string, args ...any) {
	r.mu.said.Lock()
	defer r.mu.said.Unlock()
	fmt.Fprintf(r.log, format+"\n", args...)
}
