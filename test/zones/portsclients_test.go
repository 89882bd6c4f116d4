package zones

import (
	"bytes"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/test/harness"
)

const (
	// metadataAge is each client's metadata.max.age.ms, or its library's setting of that meaning.
	metadataAge = time.Second
	// portRecordBytes is the padding of a value, portPause the time between two records of a producer.
	portRecordBytes, portPause = 4 << 10, 40 * time.Millisecond
)

// portClient is a library's idempotent producer, and a consumer which is the only member of its group. Both come by the port of their zone
// and name no zone.
type portClient struct {
	name, zone         string
	producer, consumer *testservers.Process
	input              io.Closer // of the producer, which ends with it
	ended              bool      // the producer
	acked, read        *words
}

// library is how to run a client library.
type library struct {
	name string
	// produce and drain begin the command lines, before the arguments that all libraries share. The options end the command lines.
	produce, drain               []string
	produceOptions, drainOptions []string
}

// portLibraries returns the libraries of a zone's clients. franz-go in the first zone and Java everywhere have client.rack, and partitioners that
// prefer leaders of their rack (KIP-1123).
func portLibraries(t *testing.T, zone string) (all []library) {
	t.Helper()
	here, err := os.Getwd()
	require.NoError(t, err)
	at := func(elements ...string) string {
		return filepath.Join(append([]string{here, "..", "matrix"}, elements...)...)
	}
	golang := func(name, rack string) library {
		program := harness.GoProgram(t, at("golang"))
		return library{
			name: name, produce: []string{program, "produce", name}, drain: []string{program, "drain", name},
			produceOptions: []string{rack}, drainOptions: []string{rack},
		}
	}
	python := func(name, requirements, suffix string) library {
		program := harness.PythonWith(t, at("python", "requirements", requirements))
		return library{
			name: name, produce: []string{program, "-B", at("python", "produce_"+suffix)}, drain: []string{program, "-B", at("python", "drain_"+suffix)},
		}
	}
	java := func(name, protocol string) library {
		program := []string{
			"java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx96m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
			"-cp", harness.JavaClient(t, at("java"), kafkaproto.KafkaVersion),
		}
		n := len(program)
		return library{
			name: name, produce: append(program[:n:n], "Produce"), drain: append(program[:n:n], "Drain"),
			produceOptions: []string{zone}, drainOptions: []string{zone, protocol},
		}
	}
	switch zone {
	case zones[0]:
		return []library{
			golang("franz-go", zone), golang("sarama", ""), python("aiokafka", "aiokafka-0.14.0.txt", "aio.py"),
			python("kafka-python", "kafka-python-3.0.12.txt", "kafkapython.py"), java("java", "classic"), java("java-consumer-protocol", "consumer"),
		}
	case zones[1]:
		return []library{golang("franz-go", ""), java("java", "classic")}
	default:
		return []library{golang("sarama", ""), python("aiokafka", "aiokafka-0.14.0.txt", "aio.py")}
	}
}

// newPortClient describes a library's clients of a zone, without starting them.
func newPortClient(t *testing.T, l library, zone string, place testservers.Place, bootstrap string) *portClient {
	t.Helper()
	c := &portClient{name: zone + "-" + l.name, zone: zone, acked: &words{}, read: &words{}}
	process := func(role string, command []string, args ...string) *testservers.Process {
		return testservers.NewProcessAt(t, place, c.name+"-"+role, command[0], append(command[1:len(command):len(command)], args...), nil)
	}
	age := strconv.FormatInt(metadataAge.Milliseconds(), 10)
	c.producer = process("producer", l.produce, append([]string{
		bootstrap, topic, c.name, strconv.Itoa(portRecordBytes), strconv.FormatInt(portPause.Milliseconds(), 10), age,
	}, l.produceOptions...)...)
	in, end := io.Pipe()
	c.input = end
	t.Cleanup(func() { _ = end.Close() }) // a pipe's end has no error
	c.producer.Pipe(in, c.acked)
	c.consumer = process("consumer", l.drain, append([]string{bootstrap, topic, c.name, "", age}, l.drainOptions...)...)
	c.consumer.Pipe(nil, c.read)
	return c
}

// words takes a client's output, lines of a verb and a word, and keeps the words. Safe for concurrent use.
type words struct {
	mu     sync.Mutex
	part   []byte // of a line that is not complete
	seen   map[string]bool
	lines  int
	failed []string // lines of records that the producer gave up
}

func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.part = append(w.part, p...)
	for {
		line, rest, ok := bytes.Cut(w.part, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		w.line(string(line))
		w.part = rest
	}
}

func (w *words) line(line string) {
	verb, word, _ := strings.Cut(line, " ")
	switch verb {
	case "acked", "read":
		if w.seen == nil {
			w.seen = make(map[string]bool)
		}
		w.seen[word] = true
		w.lines++
	default:
		w.failed = append(w.failed, line)
	}
}

// count returns the numbers of different words and of all.
func (w *words) count() (different, all int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.seen), w.lines
}

// missing returns how many of the other words are not there, and one of them.
func (w *words) missing(other *words) (n int, example string) {
	other.mu.Lock()
	wanted := slices.Collect(maps.Keys(other.seen))
	other.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, word := range wanted {
		if !w.seen[word] {
			n, example = n+1, word
		}
	}
	return n, example
}

// gaveUp returns the lines of records without acknowledgement.
func (w *words) gaveUp() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}
