package cluster

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/test/harness"
	"github.com/freshet-io/freshet/test/stock"
)

const (
	// stallBound is the longest that a record may take while the count of a zone goes down.
	stallBound = 2 * time.Second
	// servedAim is the time from update-service to the first record of the last new task. It is printed.
	servedAim = 10 * time.Second
	// expired is the time after which the control plane has closed the sessions of agents that ended without notice.
	expired = 7 * time.Second
	// least is the number of records of a whole run.
	least = 200_000
)

// Values of FRESHET_ECS. kill and early-ack break a promise on purpose: such a run must fail.
const (
	whole    = "1"
	stay     = "stay"      // the deployed stack runs until Ctrl-C
	kill     = "kill"      // agents end by SIGKILL before the count goes down
	earlyAck = "early-ack" // agents acknowledge records before they have stored them: the image has to be of such a build
)

// load is that of each application. Agents without a partition are unlikely.
var load = stock.Load{Topic: "ecs", Partitions: 24, IntervalMs: 40}

// scene is a stack with its applications.
type scene struct {
	*stack
	mode   string
	apps   []*stock.App
	counts map[string]int // of each zone's service
	table  bytes.Buffer
	found  []string // promises that were broken
}

// TestCluster is the whole run. FRESHET_ECS has to be set.
func TestCluster(t *testing.T) {
	mode := os.Getenv("FRESHET_ECS")
	if mode == "" {
		t.Skip("needs root, Debian packages and an image: run make e2e-ecs")
	}
	require.Contains(t, []string{whole, stay, kill, earlyAck}, mode, "FRESHET_ECS")
	if mode == stay {
		ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt) // a start that is interrupted ends, and removes what it made
		defer stop()
		newScene(t, mode).stay(ctx)
		return
	}
	s := newScene(t, mode)
	s.start()
	a, b := zones[0], zones[1]
	switch mode {
	case kill:
		s.phase(a+" from 1 to 3 agents", func() { s.scale(a, 3) })
		s.countDown(a, 1)
	case earlyAck:
		s.phase(a+" from 1 to 3 agents", func() { s.scale(a, 3) })
		for range 2 { // one of a zone's agents writes for all
			s.phase("all agents of "+a+" killed", func() { s.killAgents(a, 3); s.await(a, 3) })
		}
		s.finish()
	case whole:
		s.everything(a, b)
	}
	t.Logf("\n| phase | application | records | p50 | longest |\n|---|---|---|---|---|\n%s", &s.table)
	require.Empty(t, s.found)
}

// everything is all that operators may do.
func (s *scene) everything(a, b string) {
	s.phase(a+" from 1 to 4 agents", func() { s.scale(a, 4) })
	s.countDown(a, 0)
	s.phase(a+" from 0 to 2 agents", func() { s.scale(a, 2) })
	s.phase(b+" from 1 to 3 agents", func() { s.scale(b, 3) })
	s.phase("a new task definition in "+b, func() { s.rollOut(b) })
	s.phase("an agent of "+b+" stopped", func() { s.stopTask(b) })
	s.phase("a task definition whose tasks end at start in "+a, func() { s.rollOutBroken(a) })
	s.phase("the stack updated", s.updateStack)
	s.countDown(b, 1)
	s.finish()
}

// stay waits for Ctrl-C, which ends ctx.
func (s *scene) stay(ctx context.Context) {
	s.t.Helper()
	s.t.Logf(`the stack runs until Ctrl-C. In another terminal:
	test/ecs/cluster/stack.sh aws ecs list-services --cluster %s
	test/ecs/cluster/stack.sh run kcat -b %s.%s:9092 -L`, name, zones[0], domain)
	<-ctx.Done()
}

// newScene deploys the template with one agent in each zone.
func newScene(t *testing.T, mode string) *scene {
	t.Helper()
	archive, err := filepath.Abs("../../../bin/ecs/image.tar")
	require.NoError(t, err)
	s := &scene{stack: newStack(t, archive), mode: mode, counts: map[string]int{}}
	began := time.Now()
	parameters := map[string]string{"Image": image}
	for _, some := range []map[string]string{s.startServers(), s.network(), s.keys()} {
		maps.Copy(parameters, some)
	}
	s.deploy(parameters)
	s.await(controlPlanes, 2)
	for _, zone := range zones {
		s.await(zone, 1)
		s.counts[zone] = 1
	}
	t.Logf("the template is deployed and all tasks are ready in %s", time.Since(began).Round(time.Millisecond))
	return s
}

// start starts the applications.
func (s *scene) start() {
	s.t.Helper()
	s.apps = newApps(s.t)
	stock.Prepare(s.t, load, s.apps, s.options()...)
	for _, a := range s.apps {
		a.Consume(s.t)
		a.Produce(s.t)
	}
	stock.Flows(s.t, s.apps, time.Now())
}

// newApps starts the programs of all applications: Java and librdkafka, in each zone.
func newApps(t *testing.T) (all []*stock.App) {
	t.Helper()
	for i, zone := range zones {
		bootstrap := zone + "." + domain + ":9092," + zones[1-i] + "." + domain + ":9092" // as the template's output Bootstrap
		all = append(all,
			&stock.App{
				Name: "java-" + zone, Zone: zone, Bootstrap: bootstrap, Protocol: []string{"consumer", "classic"}[i], Java: true,
				Client: stock.Foreign{Worker: harness.LoneJavaWorkerAt(t, place, "Elastic")},
			},
			&stock.App{
				Name: "librdkafka-" + zone, Zone: zone, Bootstrap: bootstrap, Protocol: []string{"classic", "consumer"}[i],
				Client: stock.Foreign{Worker: harness.PythonWorkerAt(t, place, "elastic.py")},
			})
	}
	for _, a := range all {
		a.Load = load
	}
	return all
}

// options are those of a client of the test's own.
func (s *scene) options() []kgo.Opt {
	s.t.Helper()
	tasks, err := s.tasks("")
	require.NoError(s.t, err)
	var seeds []string
	for _, t := range tasks {
		if t.Family != familyOf(controlPlanes) {
			seeds = append(seeds, net.JoinHostPort(t.IP.String(), "9092"))
		}
	}
	return []kgo.Opt{kgo.SeedBrokers(seeds...), kgo.Dialer(place.Dial)}
}

// broken records a broken promise; the run fails at its end.
func (s *scene) broken(format string, args ...any) {
	s.t.Helper()
	s.found = append(s.found, fmt.Sprintf(format, args...))
	s.t.Log("BROKEN: " + s.found[len(s.found)-1])
}

// phase lets something happen, waits until every record that was sent meanwhile is acknowledged, and returns the longest time
// of a record of each application.
func (s *scene) phase(phase string, happens func()) map[string]time.Duration {
	s.t.Helper()
	for _, a := range s.apps {
		a.Mark(s.t)
	}
	began := time.Now()
	happens()
	took := time.Since(began)
	longest := map[string]time.Duration{}
	for i, micros := range stock.Flows(s.t, s.apps, time.Now()) {
		a := s.apps[i]
		a.Check(s.t)
		top, median := stock.Longest(micros)
		longest[a.Name] = top
		fmt.Fprintf(&s.table, "| %s | %s | %d | %d ms | %d ms |\n", phase, a.Name, len(micros), median.Milliseconds(), top.Milliseconds())
	}
	var tops []string
	for _, a := range s.apps {
		tops = append(tops, fmt.Sprintf("%s %d ms", a.Name, longest[a.Name].Milliseconds()))
	}
	s.t.Logf("%s: %s, longest stalls %s; sessions ended by time-out: %v", phase, took.Round(time.Millisecond), strings.Join(tops, ", "), s.closed())
	return longest
}

// countDown lowers the count of a zone. No session may end by time-out, and no record may take longer than stallBound.
func (s *scene) countDown(zone string, n int) {
	s.t.Helper()
	phase := fmt.Sprintf("%s from %d to %d agents", zone, s.counts[zone], n)
	before := s.closed()
	for app, top := range s.phase(phase, func() {
		if s.mode == kill {
			s.killAgents(zone, s.counts[zone]-n)
		}
		s.scale(zone, n)
	}) {
		if top > stallBound {
			s.broken("%s: a record of %s took %s, more than %s", phase, app, top, stallBound)
		}
	}
	<-time.After(expired) // a session that was left behind has ended
	if ended := s.closed() - before; ended != 0 {
		s.broken("%s: %v agent sessions ended by time-out", phase, ended)
	}
}

// closed returns how many agent sessions have ended by time-out.
func (s *scene) closed() (sum float64) {
	s.t.Helper()
	tasks, err := s.tasks(familyOf(controlPlanes))
	require.NoError(s.t, err)
	for _, t := range tasks {
		sum += t.metric(controlPlanePort, "freshet_session_closed_total")
	}
	return sum
}

// scale sets the count of a zone's service and waits until as many tasks are ready, and until new ones have served records.
func (s *scene) scale(zone string, n int) {
	s.t.Helper()
	before, err := s.tasks(familyOf(zone))
	require.NoError(s.t, err)
	old := map[string]bool{}
	for _, t := range before {
		old[t.ARN] = true
	}
	s.updateService(zone, "--desired-count", fmt.Sprint(n))
	began := time.Now()
	s.counts[zone] = n
	after := s.await(zone, n)
	for _, t := range after {
		if !old[t.ARN] {
			harness.Await(s.t, "a new task has served records", t.served)
		}
	}
	if n > len(before) {
		s.t.Logf("%s: from update-service to the first record of each of %d new tasks %s, aim %s", zone, n-len(before), time.Since(began).Round(time.Millisecond), servedAim)
	}
}

// killAgents ends agents of a zone by SIGKILL, the newest first, as the stand-in of ECS chooses tasks to stop.
func (s *scene) killAgents(zone string, n int) {
	s.t.Helper()
	tasks, err := s.tasks(familyOf(zone))
	require.NoError(s.t, err)
	args := []string{"podman", "kill", "--signal", "KILL"}
	for _, t := range tasks[:n] { // Podman lists the newest first
		args = append(args, t.Container)
	}
	s.script(args...)
}

// finish stops the producers, and compares the stored records and those read by groups with the sent ones.
func (s *scene) finish() {
	s.t.Helper()
	all := stock.FinishAll(s.t, s.apps)
	stock.AwaitListed(s.t, load.Topic, s.options()...)
	if err := all.Stored(s.t.Context(), load.Topic, s.options()...); err != nil {
		s.broken("%v", err)
		return
	}
	for _, a := range s.apps {
		a.End(s.t, all)
	}
	s.t.Logf("%d records, all there once and in order, read by %d groups", all.Total(), len(s.apps))
	if s.mode == whole {
		require.GreaterOrEqual(s.t, all.Total(), least)
	}
}
