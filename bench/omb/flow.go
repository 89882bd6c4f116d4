package omb

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/freshet-io/freshet/bench/load"
	"github.com/freshet-io/freshet/bench/worker"
	"github.com/freshet-io/freshet/internal/wait"
)

// ErrEndedEarly says that a run was ended from outside. What it had measured by then is given all the same.
var ErrEndedEarly = errors.New("run ended early")

// ErrNotReady says that consumers did not see the probes.
var ErrNotReady = errors.New("consumers are not ready")

const (
	topicPrefix  = "test-topic"     // of all topics of all runs
	readyTimeout = 60 * time.Second // for the probes to arrive
	readyPoll    = 100 * time.Millisecond
	lastWait     = 10 * time.Second // for what was sent to arrive, after the test
	curvePeriod  = time.Second      // between changes of a rate that follows a curve
	stopTimeout  = time.Minute      // for ending a run in order
)

// flow is a run under way.
type flow struct {
	cfg      Config
	w        *Workload
	worker   worker.Worker
	con      console
	outcome  Outcome
	members  int64       // consumers of this run
	draining atomic.Bool // the backlog is being built or caught up with: the test goes on
}

// Run conducts a benchmark. The outcome is nil unless something was measured, which may be so with an error too.
func Run(ctx context.Context, cfg Config) (*Outcome, error) {
	cfg.ApplyDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	f := &flow{cfg: cfg, w: &cfg.Workload, worker: cfg.Worker, con: console{out: cfg.Out, progress: cfg.Progress}}
	payload, err := f.w.payload()
	if err != nil {
		return nil, err
	}
	err = f.run(ctx, payload)
	f.con.end()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	err = errors.Join(err, f.worker.Stop(last))
	if len(f.outcome.Result.PublishRate) == 0 {
		return nil, err
	}
	return &f.outcome, err
}

func (f *flow) run(ctx context.Context, payload worker.Payload) error {
	if err := f.prepare(ctx); err != nil {
		return err
	}
	// Aside: what changes the rate, and the backlog. Both end with the test.
	asideCtx, endAside := context.WithCancel(ctx)
	defer endAside()
	aside, asideCtx := errgroup.WithContext(asideCtx)
	err := f.load(ctx, asideCtx, aside, payload)
	endAside()
	if asideErr := aside.Wait(); asideErr != nil && !errors.Is(asideErr, context.Canceled) {
		err = asideErr // the cause: it ended the test
	}
	if len(f.outcome.Result.PublishRate) == 0 {
		return err
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", ErrEndedEarly, ctx.Err())
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return errors.Join(err, f.conclude(last))
}

// prepare makes topics, consumers and producers, and waits until they see each other.
func (f *flow) prepare(ctx context.Context) error {
	f.con.begin("preparing", 0)
	defer f.con.end()
	warnings, err := f.worker.Init(ctx, f.cfg.setup())
	f.warn(warnings...)
	if err != nil {
		return err
	}
	topics, err := f.createTopics(ctx)
	if err != nil {
		return err
	}
	if err := f.createConsumers(ctx, topics); err != nil {
		return err
	}
	if err := f.createProducers(ctx, topics); err != nil {
		return err
	}
	return f.ready(ctx)
}

func (f *flow) createTopics(ctx context.Context) ([]string, error) {
	configs, err := f.cfg.Driver.topicConfigs()
	if err != nil {
		return nil, err
	}
	request := worker.Topics{Replication: f.cfg.Driver.ReplicationFactor, Configs: configs}
	if f.cfg.Driver.Reset {
		request.ResetPrefix = topicPrefix + "-"
	}
	suffix, names := randomName(), make([]string, f.w.Topics)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%07d-%s", topicPrefix, i, suffix)
		if !f.w.RandomTopicNames {
			names[i] = fmt.Sprintf("%s-%07d-%04d", topicPrefix, i, f.w.partitions(i))
		}
		request.Topics = append(request.Topics, load.Topic{Name: names[i], Partitions: int32(f.w.partitions(i))})
	}
	began := time.Now()
	if err := f.worker.CreateTopics(ctx, request); err != nil {
		return nil, err
	}
	f.con.say("Created %d topics in %d ms", len(names), time.Since(began).Milliseconds())
	return names, nil
}

// randomName tells runs apart that share a cluster.
func randomName() string { return strconv.FormatUint(rand.Uint64(), 36) }

func (f *flow) createConsumers(ctx context.Context, topics []string) error {
	var all []load.Subscription
	for _, topic := range topics {
		for i := range f.w.SubscriptionsPerTopic {
			group := fmt.Sprintf("sub-%03d-%s", i, randomName())
			for range f.w.ConsumerPerSubscription {
				all = append(all, load.Subscription{Topic: topic, Group: group})
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	began := time.Now()
	if err := f.worker.CreateConsumers(ctx, all); err != nil {
		return err
	}
	f.members = int64(len(all))
	f.con.say("Created %d consumers in %d ms", len(all), time.Since(began).Milliseconds())
	return nil
}

func (f *flow) createProducers(ctx context.Context, topics []string) error {
	var all []string
	for i, topic := range topics {
		for range f.w.producers(i) {
			all = append(all, topic)
		}
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	began := time.Now()
	if err := f.worker.CreateProducers(ctx, all); err != nil {
		return err
	}
	f.con.say("Created %d producers in %d ms", len(all), time.Since(began).Milliseconds())
	return nil
}

// ready sends a probe with each producer and waits until all subscriptions have them all, and all consumers are in their
// groups: the first of a group may read the probes alone, and the others' joining would fall into the test.
func (f *flow) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, ErrNotReady)
	defer cancel()
	if err := f.worker.Probe(ctx); err != nil {
		return err
	}
	for {
		c, err := f.worker.Counters(ctx)
		probes := c.Sent * int64(f.w.SubscriptionsPerTopic)
		if err == nil && c.Received >= probes && c.Joined >= f.members {
			f.con.say("All consumers are ready")
			return nil
		}
		if err == nil {
			f.con.reach(0)
			err = wait.For(ctx, readyPoll)
		}
		if errors.Is(context.Cause(ctx), ErrNotReady) {
			return fmt.Errorf("%w: %d probes sent, %d of %d received, %d of %d consumers in their groups in %v; without auto.offset.reset=earliest probes may be missed",
				ErrNotReady, c.Sent, c.Received, probes, c.Joined, f.members, readyTimeout)
		}
		if err != nil {
			return err
		}
	}
}

// warn says warnings at once and keeps them.
func (f *flow) warn(warnings ...string) {
	for _, w := range warnings {
		f.con.say("warning: %s", w)
	}
	f.outcome.Warnings = append(f.outcome.Warnings, warnings...)
}
