package clients

import (
	"encoding/binary"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/test/harness"
)

// mover stands between clients and two agents. In Metadata answers it is both agents, and says that the second one
// leads every partition, but for partition 0: the first one leads that until a Produce reaches it, which is held up.
type mover struct {
	delay     time.Duration
	overtaker bool     // the client goes on at the new leader: delay begins when a later Produce goes there
	agents    []string // addresses
	ways      []net.Listener
	overtook  chan struct{} // closed when another Produce was sent to the second agent before the first one was sent on

	mu       sync.Mutex
	moved    bool // the first Produce came, and is or was held up
	released bool // it was sent on
	passed   bool // overtook is closed
}

// overtaking bounds the wait for a later Produce. The owner rejects what follows a gap after twice that time.
const overtaking = 5 * time.Second

func newMover(t *testing.T, c *harness.Cluster, delay time.Duration, overtaker bool) *mover {
	t.Helper()
	m := &mover{delay: delay, overtaker: overtaker, overtook: make(chan struct{})}
	for i, a := range c.Agents[:2] {
		way, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { way.Close() })
		m.agents, m.ways = append(m.agents, a.Bootstrap), append(m.ways, way)
		go m.serve(i)
	}
	return m
}

// bootstrap is the second way, so that nothing but produces waits behind the one that is held up.
func (m *mover) bootstrap() string { return m.ways[1].Addr().String() }

func (m *mover) held() bool      { m.mu.Lock(); defer m.mu.Unlock(); return m.released }
func (m *mover) overtaken() bool { m.mu.Lock(); defer m.mu.Unlock(); return m.passed }

func (m *mover) serve(way int) {
	for {
		client, err := m.ways[way].Accept()
		if err != nil {
			return // the test is over
		}
		agent, err := net.Dial("tcp", m.agents[way])
		if err != nil {
			client.Close()
			continue
		}
		asked := make(chan [2]int16, 1000) // key and version of requests, in order
		go m.requests(way, client, agent, asked)
		go m.answers(client, agent, asked)
	}
}

// readFrame reads a frame with its length.
func readFrame(r io.Reader) ([]byte, error) {
	frame := make([]byte, 4)
	if _, err := io.ReadFull(r, frame); err != nil {
		return nil, err
	}
	frame = append(frame, make([]byte, binary.BigEndian.Uint32(frame))...)
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}

func (m *mover) requests(way int, client, agent net.Conn, asked chan<- [2]int16) {
	defer agent.Close()
	defer close(asked)
	for {
		frame, err := readFrame(client)
		if err != nil {
			return
		}
		key, version := int16(binary.BigEndian.Uint16(frame[4:])), int16(binary.BigEndian.Uint16(frame[6:]))
		if key == kafkaproto.KeyProduce {
			m.pass(way)
		}
		asked <- [2]int16{key, version}
		if _, err := agent.Write(frame); err != nil {
			return
		}
	}
}

// pass holds up the first Produce of the first way.
func (m *mover) pass(way int) {
	m.mu.Lock()
	if way == 1 || m.moved {
		if way == 1 && m.moved && !m.released && !m.passed {
			m.passed = true
			close(m.overtook)
		}
		m.mu.Unlock()
		return
	}
	m.moved = true
	m.mu.Unlock()
	if m.overtaker {
		select {
		case <-m.overtook:
		case <-time.After(overtaking):
		}
	}
	<-time.After(m.delay)
	m.mu.Lock()
	m.released = true
	m.mu.Unlock()
}

func (m *mover) answers(client, agent net.Conn, asked <-chan [2]int16) {
	defer client.Close()
	for {
		frame, err := readFrame(agent)
		if err != nil {
			return
		}
		if request := <-asked; request[0] == kafkaproto.KeyMetadata {
			if frame, err = m.rewrite(frame, request[1]); err != nil {
				return
			}
		}
		if _, err := client.Write(frame); err != nil {
			return
		}
	}
}

// rewrite puts the ways in place of the agents, and the leader that is meant.
func (m *mover) rewrite(frame []byte, version int16) ([]byte, error) {
	header := 8 // length, correlation id
	resp := kmsg.NewPtrMetadataResponse()
	resp.SetVersion(version)
	if resp.IsFlexible() {
		header++ // no tags
	}
	if err := resp.ReadFrom(frame[header:]); err != nil {
		return nil, err
	}
	m.mu.Lock()
	moved := m.moved
	m.mu.Unlock()
	nodes := make([]int32, 2)
	for i := range resp.Brokers {
		b := &resp.Brokers[i]
		for k, agent := range m.agents {
			if host, port, _ := net.SplitHostPort(agent); host == b.Host && port == strconv.Itoa(int(b.Port)) {
				b.Port = int32(m.ways[k].Addr().(*net.TCPAddr).Port)
				nodes[k] = b.NodeID
				break
			}
		}
	}
	for i := range resp.Topics {
		for k := range resp.Topics[i].Partitions {
			p := &resp.Topics[i].Partitions[k]
			p.Leader = nodes[1]
			if p.Partition == 0 && !moved {
				p.Leader = nodes[0]
			} else {
				p.LeaderEpoch++
			}
			p.Replicas, p.ISR = []int32{p.Leader}, []int32{p.Leader}
		}
	}
	out := resp.AppendTo(append([]byte(nil), frame[:header]...))
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out, nil
}
