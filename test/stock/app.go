package stock

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/test/harness"
)

// Refresh is the time between two refreshes of a client's metadata.
const Refresh = 5 * time.Second

// members is the size of an application's group.
const members = 2

// Load is the topic of some applications, and the pace of each one's producer.
type Load struct {
	Topic      string
	Partitions int
	IntervalMs int // between two records in one partition
}

// App is an application in one place: an idempotent producer, and a group of two members.
type App struct {
	Client
	Load
	Name      string
	Zone      string
	Bootstrap string
	Protocol  string            // of its group
	Java      bool              // its library is Java's, else librdkafka
	Producer  map[string]string // further settings of its producer
	Again     bool              // its group may read records again, because all agents had gone or a member was lost
}

func (a *App) config(own map[string]string) map[string]string {
	all := maps.Clone(own)
	all["bootstrap.servers"] = a.Bootstrap
	all["metadata.max.age.ms"] = fmt.Sprint(Refresh.Milliseconds())
	// docs/clients.md: without it, clients can try addresses of ended agents for 5 minutes if all agents ended.
	all["metadata.recovery.rebootstrap.trigger.ms"] = "10000"
	if !a.Java {
		all["topic.metadata.refresh.interval.ms"] = fmt.Sprint(Refresh.Milliseconds())
	}
	return all
}

// Produce starts the producer.
func (a *App) Produce(t testing.TB) {
	t.Helper()
	own := map[string]string{"client.id": "writer,zone=" + a.Zone, "enable.idempotence": "true"}
	if !a.Java {
		own["linger.ms"] = "250" // docs/clients.md: with the default, it polls without a pause, here 1.2 of two cores
	}
	maps.Copy(own, a.Producer)
	a.Write(t, Job{Name: a.Name, Topic: a.Topic, Partitions: a.Partitions, IntervalMs: a.IntervalMs, Config: a.config(own)})
}

// Consume starts the members of the group, and waits until they have all partitions.
func (a *App) Consume(t testing.TB) {
	t.Helper()
	own := map[string]string{
		"group.id": a.Name, "group.protocol": a.Protocol, "client.id": "reader,zone=" + a.Zone,
		"auto.offset.reset": map[bool]string{true: "none", false: "error"}[a.Java],
	}
	if a.Protocol == "classic" {
		own["session.timeout.ms"] = "60000" // a machine under load must not cause a rebalance
	}
	for i := range members {
		a.Join(t, Job{Name: fmt.Sprint(i), Topic: a.Topic, Config: a.config(own)})
	}
	harness.Await(t, "the group "+a.Name+" has all partitions", func() bool {
		assigned := 0
		for _, r := range a.readings(t) {
			assigned += r.Assigned
		}
		return assigned == a.Partitions
	})
}

// readings returns the readings of all members. An error of a member fails the test.
func (a *App) readings(t testing.TB) (all []Reading) {
	t.Helper()
	for i := range members {
		r := a.Look(t, fmt.Sprint(i))
		require.Empty(t, r.Faults, a.Name)
		all = append(all, r)
	}
	return all
}

// Check fails the test if a member of the group has seen an error.
func (a *App) Check(t testing.TB) {
	t.Helper()
	a.readings(t)
}

// End waits until the group has read all records that were sent, once and in order, and stops its members.
func (a *App) End(t testing.TB, all *Sent) {
	t.Helper()
	var faults []string
	defer func() {
		if len(faults) > 0 {
			t.Logf("%s: %q", a.Name, faults)
		}
	}()
	harness.Await(t, "the group "+a.Name+" has read everything, once and in order", func() bool {
		var runs []Run
		for _, r := range a.readings(t) {
			runs = append(runs, r.Runs...)
		}
		faults = all.Faults(runs, a.Again)
		return len(faults) == 0
	})
	for i := range members {
		require.Empty(t, a.Leave(t, fmt.Sprint(i)).Faults, a.Name)
	}
}

// Prepare creates the topic and commits offset 0 for the groups of applications, so that no member ever needs a reset.
func Prepare(t testing.TB, load Load, apps []*App, options ...kgo.Opt) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), reading)
	defer cancel()
	kafka, err := kgo.NewClient(options...)
	require.NoError(t, err)
	defer kafka.Close()
	admin := kadm.NewClient(kafka)
	_, err = admin.CreateTopic(ctx, int32(load.Partitions), 1, nil, load.Topic)
	require.NoError(t, err)
	var begin kadm.Offsets
	for p := range int32(load.Partitions) {
		begin.AddOffset(load.Topic, p, 0, -1)
	}
	for _, a := range apps {
		committed, err := admin.CommitOffsets(ctx, a.Name, begin)
		require.NoError(t, err)
		require.NoError(t, committed.Error())
	}
}

// Flows waits until every record that was sent before a time is acknowledged, and returns each application's latencies in
// microseconds since the last mark.
func Flows(t testing.TB, apps []*App, sent time.Time) [][]int64 {
	t.Helper()
	all := make([][]int64, len(apps))
	for i, a := range apps {
		harness.Await(t, "records of "+a.Name+" are acknowledged", func() bool {
			m := a.Mark(t)
			require.Empty(t, m.Failures, a.Name)
			all[i] = append(all[i], m.Micros...)
			return len(all[i]) > 0 && m.Oldest < time.Since(sent).Microseconds()
		})
	}
	return all
}

// FinishAll stops the producers and returns what they sent.
func FinishAll(t testing.TB, apps []*App) *Sent {
	t.Helper()
	all := NewSent()
	for _, a := range apps {
		all.Add(t, a.Name, a.Finish(t))
	}
	return all
}

// AwaitListed waits until every agent that Metadata shows answers. Agents that ended together with the control plane are shown until
// their sessions time out.
func AwaitListed(t testing.TB, topic string, options ...kgo.Opt) {
	t.Helper()
	client, err := kgo.NewClient(options...)
	require.NoError(t, err)
	defer client.Close()
	harness.Await(t, "every agent that is shown answers", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		ends, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
		return err == nil && ends.Error() == nil
	})
}

// Longest returns the largest of some latencies in microseconds, and the median.
func Longest(micros []int64) (top, median time.Duration) {
	if len(micros) == 0 {
		return 0, 0
	}
	slices.Sort(micros)
	return time.Duration(micros[len(micros)-1]) * time.Microsecond, time.Duration(micros[len(micros)/2]) * time.Microsecond
}
