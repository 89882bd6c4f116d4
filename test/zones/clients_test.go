package zones

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/test/harness"
)

const (
	topic       = "records"
	recordBytes = 1 << 10 // of values; there are no keys
	// feedChunk is how much is given to a producer at once.
	feedChunk = 64 << 10
)

// load is what is produced in each zone.
type load struct {
	records   int64
	perSecond int64 // records
}

func (l load) bytes() int64 { return l.records * recordBytes }

// duration is how long producers take by their rate.
func (l load) duration() time.Duration {
	return time.Duration(float64(l.records) / float64(l.perSecond) * float64(time.Second))
}

// everywhere is the number of records of all zones.
func (l load) everywhere() int64 { return l.records * int64(len(zones)) }

// zoneClients are one producer and one consumer, which reads what all zones produce. Batch sizes, lingers and the like are their
// defaults. Zone c's clients have a rack; the others say nothing of where they are.
type zoneClients struct {
	producer, consumer *testservers.Process
	check              func(t *testing.T) // that all records were read, when the consumer has ended
}

// newClients describes a zone's clients, without starting them.
func newClients(t *testing.T, zone string, place testservers.Place, bootstrap string, l load) zoneClients {
	t.Helper()
	switch zone {
	case zones[0]:
		c := readByFranz(t, place, bootstrap, l)
		c.producer = writeByJava(t, place, bootstrap, l)
		return c
	case zones[1]:
		c := readByKcat(t, place, bootstrap, l)
		c.producer = harness.FreshetAt(t, place, "franz-producer", "produce", topic, "--bootstrap-server", bootstrap)
		c.producer.Pipe(newFeed(t.Context(), l), nil)
		return c
	default:
		c := readByJava(t, place, bootstrap, zone, l)
		c.producer = harness.KcatAt(t, place, "kcat-producer", "-P", "-b", bootstrap, "-t", topic, "-X", "client.rack="+zone)
		c.producer.Pipe(newFeed(t.Context(), l), nil)
		return c
	}
}

func writeByJava(t *testing.T, place testservers.Place, bootstrap string, l load) *testservers.Process {
	t.Helper()
	return harness.JavaAt(t, place, "java-producer", "org.apache.kafka.tools.ProducerPerformance",
		"--bootstrap-server", bootstrap, "--topic", topic, "--record-size", strconv.Itoa(recordBytes),
		"--num-records", strconv.FormatInt(l.records, 10), "--throughput", strconv.FormatInt(l.perSecond, 10))
}

func readByFranz(t *testing.T, place testservers.Place, bootstrap string, l load) zoneClients {
	t.Helper()
	p := harness.FreshetAt(t, place, "franz-consumer", "consume", topic, "--bootstrap-server", bootstrap, "--from", "earliest",
		"--count", strconv.FormatInt(l.everywhere(), 10), "--format", `%p %o %v\n`)
	lines := &tally{}
	p.Pipe(nil, lines)
	return zoneClients{consumer: p, check: func(t *testing.T) { t.Helper(); lines.check(t, l) }}
}

func readByKcat(t *testing.T, place testservers.Place, bootstrap string, l load) zoneClients {
	t.Helper()
	p := harness.KcatAt(t, place, "kcat-consumer", "-C", "-q", "-b", bootstrap, "-t", topic, "-o", "beginning",
		"-c", strconv.FormatInt(l.everywhere(), 10), "-f", `%p %o %s\n`)
	lines := &tally{}
	p.Pipe(nil, lines)
	return zoneClients{consumer: p, check: func(t *testing.T) { t.Helper(); lines.check(t, l) }}
}

// readByJava reads as a member of a group. The tool says how much it read, and no more.
func readByJava(t *testing.T, place testservers.Place, bootstrap, rack string, l load) zoneClients {
	t.Helper()
	p := harness.JavaAt(t, place, "java-consumer", "org.apache.kafka.tools.ConsumerPerformance",
		"--bootstrap-server", bootstrap, "--topic", topic, "--group", "readers", "--hide-header",
		"--num-records", strconv.FormatInt(l.everywhere(), 10), "--timeout", "60000",
		"--command-property", "client.rack="+rack)
	var said bytes.Buffer
	p.Pipe(nil, &said)
	return zoneClients{consumer: p, check: func(t *testing.T) {
		t.Helper()
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		columns := strings.Split(lines[len(lines)-1], ", ") // start, end, MiB, MiB/s, records, ...
		require.Greater(t, len(columns), 4, "%s", &said)
		require.Equal(t, strconv.FormatInt(l.everywhere(), 10), columns[4], "records read")
	}}
}

// feed is lines for a producer's standard input at the load's rate: a record each, of letters that no codec makes smaller
// by much.
type feed struct {
	ctx   context.Context
	pace  *rate.Limiter
	lines []byte // repeated
	left  int64
	at    int
}

func newFeed(ctx context.Context, l load) io.Reader {
	const repeated = 4096 // lines
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	f := &feed{
		ctx: ctx, pace: rate.NewLimiter(rate.Limit(l.perSecond*(recordBytes+1)), feedChunk),
		left: l.records * (recordBytes + 1),
	}
	for range repeated {
		for range recordBytes {
			f.lines = append(f.lines, letters[rand.IntN(len(letters))])
		}
		f.lines = append(f.lines, '\n')
	}
	return f
}

func (f *feed) Read(p []byte) (int, error) {
	if f.left == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), feedChunk)], f.lines[f.at:min(int64(len(f.lines)), int64(f.at)+f.left)])
	if err := f.pace.WaitN(f.ctx, n); err != nil {
		return 0, fmt.Errorf("wait for the rate: %w", err)
	}
	f.at, f.left = (f.at+n)%len(f.lines), f.left-int64(n)
	return n, nil
}

// tally takes what a consumer writes, "partition offset value" by lines, and counts.
type tally struct {
	part    []byte           // of a line that is not complete
	next    map[string]int64 // offset, by partition
	records int64
	bytes   int64
	wrong   string // the first line that was not expected
}

func (y *tally) Write(p []byte) (int, error) {
	n := len(p)
	for {
		line, rest, ok := bytes.Cut(p, []byte("\n"))
		if !ok {
			y.part = append(y.part, p...)
			return n, nil
		}
		if len(y.part) > 0 {
			line = append(y.part, line...)
		}
		y.line(line)
		y.part, p = y.part[:0], rest
	}
}

// line counts a record, which must be the next one of its partition.
func (y *tally) line(line []byte) {
	partition, rest, _ := bytes.Cut(line, []byte(" "))
	offset, value, ok := bytes.Cut(rest, []byte(" "))
	if y.next == nil {
		y.next = make(map[string]int64)
	}
	want := y.next[string(partition)]
	if at, err := strconv.ParseInt(string(offset), 10, 64); y.wrong == "" && (!ok || err != nil || at != want) {
		y.wrong = fmt.Sprintf("%.40q, and offset %d of partition %s is next", line, want, partition)
	}
	y.next[string(partition)] = want + 1
	y.records++
	y.bytes += int64(len(value))
}

func (y *tally) check(t *testing.T, l load) {
	t.Helper()
	require.Empty(t, y.wrong, "every record is read once, in order")
	require.Equal(t, l.everywhere(), y.records)
	require.Equal(t, l.everywhere()*recordBytes, y.bytes)
}
