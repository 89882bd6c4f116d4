package ecosystem

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	committers   = 8
	pairsBetween = 40                    // further pairs of each committer before something else happens
	looksEvery   = 2                     // pairs, of a committer
	pairInterval = 40 * time.Millisecond // of a committer; a pair is under way for half of it or more
	askAgain     = 20 * time.Millisecond
	straddling   = 500 * time.Millisecond // a pair that took longer, or was refused, met the change
)

// TestCommits_Pipelined: connections send two OffsetCommits at once, again and again, while the owner is killed and while
// it is paused past its lease. Of two that are both taken the later one wins, and nothing goes back afterwards.
func TestCommits_Pipelined(t *testing.T) { // not parallel: it measures time
	b := startCluster(t)
	b.create(t, "t", 1)
	var stop atomic.Bool
	var running sync.WaitGroup
	var all []*committer
	for i := range committers {
		c := &committer{address: strings.Split(b.bootstrap, ",")[0], group: fmt.Sprintf("pipelined-%d", i), turn: i, possible: []int64{0}}
		all = append(all, c)
		commit(t, b, c.group, "t", 0) // by a client that first finds the coordinator, upon which Kafka makes one
		running.Go(func() {
			next := time.NewTicker(pairInterval)
			defer next.Stop()
			for ; !stop.Load() && !t.Failed(); <-next.C {
				c.pair(t)
			}
		})
	}
	t.Cleanup(func() {
		stop.Store(true)
		running.Wait()
		for _, c := range all {
			t.Logf("%s: %d pairs taken, the last one was answered %v", c.group, c.taken.Load(), c.said.Load())
		}
	})
	more := func() {
		var wants []int64
		for _, c := range all {
			wants = append(wants, c.taken.Load()+pairsBetween)
		}
		for i, c := range all {
			awaitLong(t, c.group+" commits further pairs", func() bool {
				return c.taken.Load() >= wants[i] || t.Failed()
			})
		}
	}
	more()
	for _, f := range b.ownerFaults {
		f.strike(t, more)
		more()
		straddled := int64(0)
		for _, c := range all {
			straddled += c.straddled.Swap(0)
		}
		t.Logf("%s: %d pairs met the change", f.what, straddled)
		require.True(t, straddled > 0 || *against == "kafka", "no pair was under way")
	}
}

// committer commits for a group of its own, and is the only one that does.
type committer struct {
	address  string
	group    string
	turn     int // to look at what is committed: those of all committers differ
	conn     *connection
	sent     int64   // offsets so far
	possible []int64 // offsets, one of which is committed as far as answers tell

	taken     atomic.Int64 // pairs
	said      atomic.Value // how the last pair was answered
	straddled atomic.Int64
}

// pair sends two commits in one write, and looks what became of them if they were refused or if it is its turn. Answers
// come to all committers together, as the log takes commits: did all of them look then, a fault might meet no pair.
func (c *committer) pair(t *testing.T) {
	t.Helper()
	if c.conn == nil {
		conn, err := connect(c.address)
		if err != nil {
			_, _ = c.find(t) // waits until it is back
			return
		}
		c.conn = conn
	}
	first, second := c.sent+1, c.sent+2
	c.sent += 2
	began := time.Now()
	codes, err := c.conn.commits(c.group, first, second)
	c.said.Store(fmt.Sprint(codes, err))
	if err == nil && (time.Since(began) > straddling || slices.ContainsFunc(codes, func(c int16) bool { return c != 0 })) {
		c.straddled.Add(1)
	}
	for _, code := range codes {
		assert.True(t, code == 0 || kerr.IsRetriable(kerr.ErrorForCode(code)), "%s: %v", c.group, kerr.ErrorForCode(code))
	}
	wasTaken := err == nil && codes[1] == 0
	switch {
	case wasTaken:
		c.possible = []int64{second}
	case err == nil && codes[0] == 0:
		c.possible = []int64{first, second}
	default:
		c.possible = append(c.possible, first, second)
	}
	if c.turn++; !wasTaken || c.turn%looksEvery == 0 {
		found, ok := c.find(t)
		if !ok {
			return
		}
		assert.Contains(t, c.possible, found, "%s: answers %v, %v", c.group, codes, err)
		c.possible = []int64{found}
	}
	if wasTaken {
		c.taken.Add(1)
	}
}

// find asks for the group's offset until it is told. Without a connection, there is a new one next time.
func (c *committer) find(t *testing.T) (int64, bool) {
	t.Helper()
	again := time.NewTicker(askAgain)
	defer again.Stop()
	for ; !t.Failed(); <-again.C {
		if c.conn == nil {
			conn, err := connect(c.address)
			if err != nil {
				continue
			}
			c.conn = conn
		}
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Version, req.Group = 7, c.group
		req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0}}}
		if err := c.conn.send(req); err != nil {
			c.conn = nil
			continue
		}
		resp := kmsg.NewPtrOffsetFetchResponse()
		resp.Version = 7
		if err := c.conn.receive(resp); err != nil {
			c.conn = nil
			continue
		}
		if resp.ErrorCode == 0 && resp.Topics[0].Partitions[0].ErrorCode == 0 {
			return max(0, resp.Topics[0].Partitions[0].Offset), true // -1: none yet
		}
	}
	return 0, false
}

// connection sends requests as they are.
type connection struct {
	net.Conn
	format *kmsg.RequestFormatter
}

func connect(address string) (*connection, error) {
	conn, err := net.DialTimeout("tcp", address, limit)
	if err != nil {
		return nil, err
	}
	return &connection{Conn: conn, format: kmsg.NewRequestFormatter(kmsg.FormatterClientID("pipeline"))}, nil
}

// commits sends two commits together and gives the codes of their answers.
func (c *connection) commits(group string, offsets ...int64) ([]int16, error) {
	var both []kmsg.Request
	for _, o := range offsets {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Offset = o
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Version, req.Group, req.Generation = 8, group, -1
		req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
		both = append(both, req)
	}
	if err := c.send(both...); err != nil {
		return nil, err
	}
	var codes []int16
	for range both {
		resp := kmsg.NewPtrOffsetCommitResponse()
		resp.Version = 8
		if err := c.receive(resp); err != nil {
			return codes, err
		}
		codes = append(codes, resp.Topics[0].Partitions[0].ErrorCode)
	}
	return codes, nil
}

// send writes requests at once.
func (c *connection) send(reqs ...kmsg.Request) error {
	var frames []byte
	for _, req := range reqs {
		frames = append(frames, c.format.AppendRequest(nil, req, 0)...)
	}
	_, err := c.Write(frames)
	return err
}

// receive reads the next answer, which has a flexible header.
func (c *connection) receive(resp kmsg.Response) error {
	if err := c.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return err
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c, body); err != nil {
		return err
	}
	const header = 5 // correlation id and no tags
	return resp.ReadFrom(body[header:])
}
