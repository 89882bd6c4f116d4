package s3

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/objstore/objstoretest"
)

func TestPayload_ReadAndVectorsGiveTheSameBytes(t *testing.T) {
	data := objstoretest.Bytes(1, 3<<20)
	buffers := [][]byte{data[:10], nil, data[10 : 2<<20], data[2<<20 : 2<<20+1], data[2<<20+1:]}
	p := &payload{buffers: buffers, size: int64(len(data))}
	got, err := io.ReadAll(p.reader())
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, got))

	client, server := tcpPair(t)
	received := make(chan []byte)
	go func() {
		all, _ := io.ReadAll(server)
		received <- all
	}()
	// As net/http does it: the first bytes are copied, the rest is handed over.
	r := p.reader()
	first := make([]byte, 100)
	_, err = io.ReadFull(r, first)
	require.NoError(t, err)
	_, err = client.Write(first)
	require.NoError(t, err)
	n, err := vectorConn{client}.ReadFrom(io.LimitReader(r, int64(len(data)-100)))
	require.NoError(t, err)
	require.EqualValues(t, len(data)-100, n)
	n, err = vectorConn{client}.ReadFrom(bytes.NewReader([]byte("tail")))
	require.NoError(t, err)
	require.EqualValues(t, 4, n)
	client.Close()
	require.True(t, bytes.Equal(append(data, "tail"...), <-received))
}

func TestPayload_DetachStopsReading(t *testing.T) {
	data := make([]byte, 1<<20)
	p := &payload{buffers: [][]byte{data}, size: int64(len(data))}
	stopped := make(chan error)
	go func() {
		for buf := make([]byte, 10); ; {
			if _, err := p.reader().Read(buf); err != nil {
				stopped <- err
				return
			}
		}
	}()
	p.detach()
	clear(data) // the race detector finds a read after this
	require.ErrorIs(t, <-stopped, errDetached)
	client, _ := tcpPair(t)
	_, err := p.reader().writeTo(client, 10)
	require.ErrorIs(t, err, errDetached)
}

func TestPayload_DetachWaitsForWriteUnderWay(t *testing.T) {
	data := make([]byte, 256<<20) // more than the kernel buffers; never touched
	p := &payload{buffers: [][]byte{data}, size: int64(len(data))}
	client, server := tcpPair(t)
	written := make(chan error)
	started := make(chan struct{})
	go func() {
		close(started)
		_, err := p.reader().writeTo(client, p.size)
		written <- err
	}()
	<-started
	_, err := io.ReadFull(server, make([]byte, 1<<20))
	require.NoError(t, err)
	detached := make(chan struct{})
	go func() {
		p.detach()
		close(detached)
	}()
	// The write may be between two pieces, so that detach returns at once; then the writer stops. Otherwise it is
	// stuck in a piece until the connection is closed, and detach with it.
	select {
	case <-detached:
	case <-time.After(20 * time.Millisecond):
		client.Close()
		<-detached
	}
	require.Error(t, <-written)
}

func tcpPair(t *testing.T) (client, server *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	accepted, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(); accepted.Close() })
	return conn.(*net.TCPConn), accepted.(*net.TCPConn)
}
