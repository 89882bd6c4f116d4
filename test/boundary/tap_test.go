package boundary

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/testservers"
)

// taps are proxies before control planes. A file has the bytes of each direction of a connection.
type taps struct {
	t     *testing.T
	place func(process string) testservers.Place
	dir   string

	mu    sync.Mutex
	count int
}

// front starts the proxy of a control plane, and returns the proxy's address. Other processes keep theirs.
func (p *taps) front(process, address string) string {
	p.t.Helper()
	if process != "controlplane-0" && process != "controlplane-1" {
		return address
	}
	place := p.place(process)
	l := place.Listen(p.t)
	p.t.Cleanup(func() { _ = l.Close() }) // once
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(place, in, address)
		}
	}()
	return l.Addr().String()
}

func (p *taps) serve(place testservers.Place, in net.Conn, address string) {
	defer in.Close()
	out, err := place.Dial(p.t.Context(), "tcp", address)
	if err != nil {
		return // the control plane is down
	}
	defer out.Close()
	p.mu.Lock()
	p.count++
	n := p.count
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { p.pass(fmt.Sprintf("%d-in", n), in, out) })
	both.Go(func() { p.pass(fmt.Sprintf("%d-out", n), out, in) })
	both.Wait()
}

// pass writes bytes to the file before they go on.
func (p *taps) pass(name string, from, to net.Conn) {
	defer func() { _, _ = from.Close(), to.Close() }() // the end of one direction of gRPC is that of both
	f, err := os.Create(filepath.Join(p.dir, name))
	if err != nil {
		p.t.Error(err)
		return
	}
	defer f.Close()
	_, _ = io.Copy(to, io.TeeReader(from, f)) // it ends with the connection
}

// scan searches for tags in all files of a directory, and returns the number of bytes.
func scan(t *testing.T, s *tags, dir string) (bytes int) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		p, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		bytes += len(p)
		if found := s.search(p); found != "" {
			t.Errorf("%s has the %s", path, found)
		}
		return nil
	}))
	return bytes
}
