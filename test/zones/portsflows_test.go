package zones

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet-io/freshet/internal/testservers"
)

const (
	// crossingsEvery is the time between two looks at the clients' connections. Bytes of a connection after its last look are not seen
	// here. Connections with records last longer, and the links count all bytes.
	crossingsEvery = 500 * time.Millisecond
	// requestChatter bounds the bytes that a client sends by one connection to another zone in a second, besides one record in all. A Metadata
	// request has about 60 bytes, and comes once in a metadata age.
	requestChatter = 256
	// answerChatter bounds the bytes that a client receives by one connection from another zone in a second. A Metadata answer has up to 6 KiB: it
	// lists the four nodes of each agent. A consumer of one partition receives 80 KiB a second.
	answerChatter = 16 << 10
	// linkChatter bounds the bytes between two zones in a second. Twenty clients ask for Metadata once a second, franz-go of all brokers in
	// turn, and other libraries of any broker. One producer sends 100 KiB a second, to two zones if its own has no agents.
	linkChatter = 40 << 10
)

// socket is a client's connection to an agent.
type socket struct {
	pid           int
	local, remote string
}

// flow is the bytes of a connection, payload alone.
type flow struct{ sent, received int64 }

// crossings looks at the connections that clients of some zones have with other zones' agents.
type crossings struct {
	net     *namespaces
	homes   []string
	end     context.CancelFunc
	looking sync.WaitGroup

	// by the goroutine that looks, until it ends
	first, last map[socket]flow
}

func startCrossings(t *testing.T, n *namespaces, homes []string) *crossings {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	c := &crossings{net: n, homes: homes, end: end, first: make(map[socket]flow), last: make(map[socket]flow)}
	for _, home := range homes {
		maps.Copy(c.first, n.sockets(t, home))
	}
	c.looking.Go(func() {
		every := time.NewTicker(crossingsEvery)
		defer every.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-every.C:
				for _, home := range homes {
					maps.Copy(c.last, n.sockets(t, home))
				}
			}
		}
	})
	t.Cleanup(c.looking.Wait) // the test's context has ended
	return c
}

// stop ends the looks and returns the bytes of each connection since the start.
func (c *crossings) stop() map[socket]flow {
	c.end()
	c.looking.Wait()
	for s, f := range c.last {
		c.last[s] = flow{f.sent - c.first[s].sent, f.received - c.first[s].received}
	}
	return c.last
}

// socketLine is a line of ss about a connection of one process. Numbers follow in the next line.
var socketLine = regexp.MustCompile(`(\S+:\d+)\s+(\S+:\d+)\s+users:.*?,pid=(\d+),`)

// sockets returns the connections from a node's clients to the agents of other zones.
func (n *namespaces) sockets(t *testing.T, node string) map[socket]flow {
	t.Helper()
	out, err := exec.Command("ip", "netns", "exec", n.Namespace(node), "ss", "-Htnip").Output()
	if err != nil {
		t.Errorf("ss in %s: %v", node, err)
		return nil
	}
	return parseSockets(node, out)
}

// parseSockets reads the output of ss at a node.
func parseSockets(node string, out []byte) map[socket]flow {
	all := make(map[socket]flow)
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		m := socketLine.FindStringSubmatch(lines.Text())
		if m == nil || !lines.Scan() {
			continue
		}
		local, _, _ := net.SplitHostPort(m[1]) // by the expression
		remote, _, _ := net.SplitHostPort(m[2])
		if local != address(node, testservers.ClientHost) || zoneAt(remote) == node || zoneAt(remote) == "" {
			continue
		}
		pid, _ := strconv.Atoi(m[3]) // by the expression
		all[socket{pid, m[1], m[2]}] = flow{number(lines.Text(), "bytes_acked:"), number(lines.Text(), "bytes_received:")}
	}
	return all
}

// number returns a value of ss, or 0 if it is not there.
func number(line, name string) int64 {
	for field := range strings.FieldsSeq(line) {
		if value, ok := strings.CutPrefix(field, name); ok {
			n, _ := strconv.ParseInt(value, 10, 64) // ss writes numbers only
			return n
		}
	}
	return 0
}

// checkFlows returns an error if a connection to another zone carried records.
func checkFlows(flows map[socket]flow, clients []*portClient, took time.Duration) error {
	for s, f := range flows {
		if f.sent < portRecordBytes+int64(requestChatter*took.Seconds()) && f.received < int64(answerChatter*took.Seconds()) {
			continue
		}
		return fmt.Errorf("%s sent %d bytes to %s and received %d in %s", nameOf(s.pid, clients), f.sent, s.remote, f.received, took.Round(time.Millisecond))
	}
	return nil
}

// nameOf returns the name of a client's process.
func nameOf(pid int, clients []*portClient) string {
	for _, c := range clients {
		switch pid {
		case c.producer.PID():
			return "the producer of " + c.name
		case c.consumer.PID():
			return "the consumer of " + c.name
		}
	}
	return fmt.Sprint("process ", pid)
}
