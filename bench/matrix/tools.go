package matrix

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/bench/javaconfig"
	"github.com/freshet-io/freshet/bench/load"
	"github.com/freshet-io/freshet/bench/omb"
	"github.com/freshet-io/freshet/bench/perf"
	"github.com/freshet-io/freshet/bench/report"
	"github.com/freshet-io/freshet/bench/worker"
	"github.com/freshet-io/freshet/bench/workloads"
)

// errLost says that messages were not acknowledged, or not received.
var errLost = errors.New("messages lost")

// omb runs a workload of the OpenMessaging Benchmark.
func (m *matrix) omb(ctx context.Context, o *outcome, logs io.Writer) {
	w, err := o.entry.Workload()
	driver, driverErr := o.entry.DriverFile()
	if err = errors.Join(err, driverErr); err != nil {
		o.err = err
		return
	}
	w, settings := m.cfg.Scale.Workload(w)
	driver.CommonConfig += "\n" + m.cfg.Common
	if o.err = m.replicate(&driver); o.err != nil {
		return
	}
	o.note(w.Interval(), append(settings, settingsOfDriver(driver)...))
	made := &tracked{Worker: worker.NewLocal("")}
	out, err := omb.Run(ctx, omb.Config{Driver: driver, Workload: w, Bootstrap: m.cfg.Bootstrap, Worker: made, Out: logs})
	o.err = errors.Join(err, m.remove(ctx, made))
	if out == nil {
		return
	}
	o.began, o.ended = out.Began, out.Ended
	o.notes.Warnings = out.Warnings
	o.result = filepath.Join(m.cfg.Dir, omb.FileName(o.entry.Name, driver.Name, out.Ended))
	missing := out.Totals.Sent*int64(w.SubscriptionsPerTopic) - out.Totals.Received
	o.err = errors.Join(o.err, lost(out.Totals.Failed, missing), out.Result.WriteFile(o.result))
}

// lost is an error if messages were. More than were sent may be received: consumers see some again when their groups
// change.
func lost(failed, missing int64) error {
	if failed == 0 && missing <= 0 {
		return nil
	}
	return fmt.Errorf("%w: %d not acknowledged, %d not received", errLost, failed, max(0, missing))
}

// perf runs a performance test.
func (m *matrix) perf(ctx context.Context, o *outcome, logs io.Writer) {
	cfg, err := o.entry.Options()
	if err != nil {
		o.err = err
		return
	}
	cfg, settings := m.cfg.Scale.Options(cfg)
	cfg.Bootstrap, cfg.ResultDir, cfg.Out, cfg.DeleteTopics = m.cfg.Bootstrap, m.cfg.Dir, logs, true
	if cfg.Common, err = javaconfig.Parse(m.cfg.Common); err != nil {
		o.err = err
		return
	}
	o.note(cfg.Interval, settings)
	out, err := perf.Run(ctx, cfg)
	o.err = err
	if out == nil {
		return
	}
	r := out.Result
	o.began = time.UnixMilli(r.StartMs)
	o.ended = o.began.Add(time.Duration(r.TimeSecs[len(r.TimeSecs)-1] * float64(time.Second)))
	o.notes.Warnings = out.Warnings
	o.result = out.Path
	o.err = errors.Join(o.err, lost(int64(r.Failed), 0))
}

func (o *outcome) note(period time.Duration, settings []workloads.Setting) {
	o.notes.PeriodSeconds = period.Seconds()
	o.notes.Settings = []report.Setting{{Name: "workload", Effective: o.entry.About()}, {Name: "source", Effective: o.entry.Source()}}
	for _, s := range settings {
		if s.Original != "" || s.Effective != "" {
			o.notes.Settings = append(o.notes.Settings, report.Setting(s))
		}
	}
}

func settingsOfDriver(d omb.Driver) []workloads.Setting {
	return []workloads.Setting{
		{Name: "replicationFactor", Effective: strconv.Itoa(int(d.ReplicationFactor))},
		{Name: "topicConfig", Effective: d.TopicConfig},
		{Name: "producerConfig", Effective: d.ProducerConfig},
		{Name: "consumerConfig", Effective: d.ConsumerConfig},
	}
}

// minISR is the topic configuration that must not ask for more replicas than there are.
const minISR = "min.insync.replicas"

// replicate sets the replication factor, and lowers min.insync.replicas to it.
func (m *matrix) replicate(d *omb.Driver) error {
	if m.cfg.Replication == 0 {
		return nil
	}
	d.ReplicationFactor = m.cfg.Replication
	configs, err := javaconfig.Parse(d.TopicConfig)
	if err != nil {
		return fmt.Errorf("topicConfig of driver %s: %w", d.Name, err)
	}
	if n, err := strconv.Atoi(configs[minISR]); err == nil && n > int(m.cfg.Replication) {
		d.TopicConfig += fmt.Sprintf("\n%s=%d\n", minISR, max(1, m.cfg.Replication))
	}
	return nil
}

// tracked remembers what a run makes.
type tracked struct {
	worker.Worker
	topics map[string]bool
	groups []string
}

// CreateTopics makes topics.
func (t *tracked) CreateTopics(ctx context.Context, topics worker.Topics) error {
	t.topics = map[string]bool{}
	for _, topic := range topics.Topics {
		t.topics[topic.Name] = true
	}
	return t.Worker.CreateTopics(ctx, topics)
}

// CreateConsumers makes consumers.
func (t *tracked) CreateConsumers(ctx context.Context, subscriptions []load.Subscription) error {
	groups := map[string]bool{}
	for _, s := range subscriptions {
		if !groups[s.Group] {
			t.groups = append(t.groups, s.Group)
		}
		groups[s.Group] = true
	}
	return t.Worker.CreateConsumers(ctx, subscriptions)
}

// cleanupTimeout bounds the removal of topics and groups, which happens also after an interruption.
const cleanupTimeout = time.Minute

// remove deletes what a run made.
func (m *matrix) remove(ctx context.Context, made *tracked) error {
	if len(made.topics) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	opts, err := m.adminOptions()
	if err != nil {
		return err
	}
	_, err = load.DeleteTopics(ctx, opts, func(name string) bool { return made.topics[name] })
	return errors.Join(err, load.DeleteGroups(ctx, opts, made.groups))
}

func (m *matrix) adminOptions() ([]kgo.Opt, error) {
	common, err := javaconfig.Parse(m.cfg.Common)
	if err != nil {
		return nil, err
	}
	client, err := javaconfig.Admin(common.With(javaconfig.Properties{"bootstrap.servers": m.cfg.Bootstrap}))
	return client.Options, err
}
