package matrix

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/test/harness"
)

// lostZones are the zones of the cluster. All consumers are of the first one.
var lostZones = []string{"a", "b"}

// everyClient reports whether the tests run every library and every way to name a zone, which takes minutes. If FRESHET_LOSTZONE is not 1,
// the tests run only the libraries whose names have this text.
func everyClient() bool { return os.Getenv("FRESHET_LOSTZONE") != "" }

// zoneReaders returns the command lines of consumers that take the arguments bootstrap, topic, group and client ID.
func zoneReaders(t *testing.T) map[string][]string {
	t.Helper()
	here, err := os.Getwd()
	require.NoError(t, err)
	at := func(elements ...string) string { return filepath.Join(append([]string{here}, elements...)...) }
	python := func(requirements, script string) []string {
		return []string{harness.PythonWith(t, at("python", "requirements", requirements)), "-B", at("python", script)}
	}
	java := func(version string) []string {
		return []string{
			"java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx96m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
			"-cp", harness.JavaClient(t, at("java"), version), "Drain",
		}
	}
	readers := map[string][]string{
		"aiokafka 0.14": python("aiokafka-0.14.0.txt", "drain_aio.py"),
		"Java 2.8":      java("2.8.2"),
		"Java 3.9":      java("3.9.1"),
	}
	if !everyClient() {
		return readers
	}
	program := harness.GoProgram(t, at("golang"))
	maps.Copy(readers, map[string][]string{
		"Java 3.7":           java("3.7.2"),
		"Java 4.4":           java(kafkaproto.KafkaVersion),
		"kafka-python 2.0.6": python("kafka-python-2.0.6.txt", "drain_kafkapython.py"),
		"kafka-python 3":     python("kafka-python-3.0.12.txt", "drain_kafkapython.py"),
		"librdkafka 2.16":    python("confluent-kafka-2.16.1.txt", "drain_confluent.py"),
		"kafkajs":            {"env", "NODE_PATH=" + harness.NodeModules(t, at("node")), "node", at("node", "drain.js")},
		"sarama":             {program, "drain", "sarama"},
		"franz-go":           {program, "drain", "franz-go"},
	})
	if only := os.Getenv("FRESHET_LOSTZONE"); only != "1" {
		maps.DeleteFunc(readers, func(name string, _ []string) bool { return !strings.Contains(name, only) })
	}
	return readers
}

// zoneReader is a running consumer.
type zoneReader struct {
	*testservers.Process
	name  string
	known bool // agents know its zone
}

// lostZone is a cluster of two zones with an agent each, and consumers of the first zone.
type lostZone struct {
	t       *testing.T
	cluster *harness.Cluster
	readers []zoneReader
	words   int
}

const (
	lostTopic      = "lost"
	lostPartitions = 2
	// lostZonePort is the first port of the first zone's listener.
	lostZonePort = 29392
)

// startLostZone starts the cluster with spare agents, which do not run yet, and lets every consumer read a record.
func startLostZone(t *testing.T, spares int) *lostZone {
	t.Helper()
	commands := zoneReaders(t)
	host := fmt.Sprintf("127.0.%d", 100+spares) // tests side by side use the same ports at other addresses
	place := func(process string) testservers.Place {
		if n, ok := strings.CutPrefix(process, "agent-"); ok {
			return testservers.Place{Address: host + "." + n}
		}
		return testservers.Place{}
	}
	l := &lostZone{t: t, cluster: harness.NewCluster(t, harness.ClusterConfig{
		Agents: len(lostZones) + spares, ControlPlanes: 1, Zones: lostZones, Place: place,
		FlagsOf: func(agent string) []string {
			return []string{"--zone-listeners", fmt.Sprintf("%s:%d=%s", place(agent).Host(), lostZonePort, strings.Join(lostZones, ","))}
		},
	})}
	l.cluster.ControlPlanes[0].Launch()
	l.cluster.ControlPlanes[0].AwaitReady()
	for _, a := range l.cluster.Agents[:len(lostZones)] {
		a.Launch()
		a.AwaitReady()
	}
	bootstrap := l.cluster.Agents[0].Bootstrap
	harness.Await(t, "both zones are shown", func() bool { return len(l.shown(bootstrap)) == len(lostZones) })
	_, err := admin(t, bootstrap).CreateTopic(t.Context(), lostPartitions, 1, nil, lostTopic)
	require.NoError(t, err)
	for _, name := range slices.Sorted(maps.Keys(commands)) {
		l.start(name+", unknown zone", commands[name], bootstrap, "", false)
		if everyClient() {
			l.start(name+", client ID", commands[name], bootstrap, "reader,zone="+lostZones[0], true)
			l.start(name+", port of the zone", commands[name], net.JoinHostPort(place("agent-0").Host(), strconv.Itoa(lostZonePort)), "", true)
		}
	}
	word := l.produce(l.cluster.Agents[1])
	for _, r := range l.readers {
		harness.Await(t, r.name+" reads", func() bool { return l.has(r, word) })
	}
	return l
}

func (l *lostZone) start(label string, command []string, bootstrap, client string, known bool) {
	l.t.Helper()
	args := append(command[1:len(command):len(command)], bootstrap, lostTopic, "group of "+label, client)
	p := testservers.NewProcess(l.t, label, command[0], args, func() error { return nil })
	p.Launch()
	l.readers = append(l.readers, zoneReader{Process: p, name: label, known: known})
}

// shown returns the brokers that Metadata names to a client of the first zone.
func (l *lostZone) shown(bootstrap string) kadm.BrokerDetails {
	l.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ClientID("watch,zone="+lostZones[0]))
	require.NoError(l.t, err)
	defer client.Close()
	brokers, err := kadm.NewClient(client).ListBrokers(l.t.Context())
	require.NoError(l.t, err)
	return brokers
}

// produce writes a new word to every partition.
func (l *lostZone) produce(to *harness.Agent) (word string) {
	l.t.Helper()
	l.words++
	word = fmt.Sprintf("word-%d.", l.words)
	client, err := kgo.NewClient(kgo.SeedBrokers(to.Bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ClientID("writer,zone="+to.Zone))
	require.NoError(l.t, err)
	defer client.Close()
	for i := range int32(lostPartitions) {
		r := &kgo.Record{Topic: lostTopic, Partition: i, Value: fmt.Appendf(nil, "%s%d", word, i)}
		require.NoError(l.t, client.ProduceSync(l.t.Context(), r).FirstErr())
	}
	return word
}

// has reports whether a consumer has read a word from every partition.
func (l *lostZone) has(r zoneReader, word string) bool {
	l.t.Helper()
	require.True(l.t, r.Running(), "%s ended\n%s", r.name, r.Output())
	for i := range lostPartitions {
		if !strings.Contains(r.Output(), fmt.Sprintf("read %s%d\n", word, i)) {
			return false
		}
	}
	return true
}

// returned produces once and returns the time until each consumer has read the word, and the consumers that have not within the limit.
func (l *lostZone) returned(to *harness.Agent, limit time.Duration) (took map[string]time.Duration, silent []zoneReader) {
	l.t.Helper()
	began := time.Now()
	word := l.produce(to)
	took = make(map[string]time.Duration)
	for silent = slices.Clone(l.readers); len(silent) > 0 && time.Since(began) < limit; {
		silent = slices.DeleteFunc(silent, func(r zoneReader) bool {
			if !l.has(r, word) {
				return false
			}
			took[r.name] = time.Since(began)
			return true
		})
		time.Sleep(50 * time.Millisecond) // sleeps: between looks at the output of processes
	}
	for _, name := range slices.Sorted(maps.Keys(took)) {
		l.t.Logf("%-36s reads again after %5.1f s", name, took[name].Seconds())
	}
	return took, silent
}

// TestLostZone_Replaced replaces the agents of a cluster of two zones one by one. All consumers, also of unknown zone, read on.
func TestLostZone_Replaced(t *testing.T) {
	t.Parallel()
	l := startLostZone(t, len(lostZones))
	for i := range lostZones {
		old, successor := l.cluster.Agents[i], l.cluster.Agents[len(lostZones)+i]
		successor.Launch()
		successor.AwaitReady()
		harness.Await(t, "the old agent shows its successor", func() bool { return len(l.shown(old.Bootstrap)) == len(lostZones)+1 })
		_, err := old.Terminate(time.Minute)
		require.NoError(t, err)
		took, silent := l.returned(successor, time.Minute)
		require.Empty(t, names(silent), "consumers without records after agent %d was replaced", i)
		harness.Within(t, "all consumers read again", slices.Max(slices.Collect(maps.Values(took))), 10*time.Second)
	}
}

// TestLostZone_Dead kills the only agent of a zone for good. All consumers of known zone read on. Consumers of unknown zone are listed.
func TestLostZone_Dead(t *testing.T) {
	if !everyClient() {
		t.Skip("waits for clients that never return; make lostzone runs it")
	}
	l := startLostZone(t, 0)
	l.cluster.Agents[0].Kill()
	_, silent := l.returned(l.cluster.Agents[1], 90*time.Second)
	stranded := slices.DeleteFunc(slices.Clone(silent), func(r zoneReader) bool { return r.known })
	t.Logf("silent after 90 s, of unknown zone: %s", strings.Join(names(stranded), "; "))
	silent = slices.DeleteFunc(silent, func(r zoneReader) bool { return !r.known })
	for _, r := range silent {
		t.Logf("output of %s:\n%s", r.name, r.Output())
	}
	require.Empty(t, names(silent), "consumers of known zone without records")
}

func names(readers []zoneReader) (all []string) {
	for _, r := range readers {
		all = append(all, r.name)
	}
	return all
}
