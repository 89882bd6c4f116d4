package keys

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/internal/accesskey"
)

// Bounds of files of keys.
const (
	maxFileBytes = 4 << 20
	maxFileKeys  = 20_000
	readPause    = time.Second // between two reads of a file
)

// File is a source of keys of one kind. Each line of the file has the SHA-256 of a key, in 64 hexadecimal digits. For kinds that open one virtual
// cluster, the line begins with its name. Empty lines and text from a # on are ignored. The file has at most 4 MiB and 20,000 keys.
type File struct {
	Path            string
	Kind            Kind
	VirtualClusters []string // names that lines can have
	Set             *Set
	Log             *zap.Logger

	content []byte // content of the file at the last change of the Set, nil before
	seen    []byte // content of the file at the newest Load
	fault   string // error of the newest Load by Run, "" for none
}

// Load reads the file into the Set. A changed file is taken by the second Load that reads the same, because a program may be writing it. If Load
// returns an error, the Set keeps the earlier keys.
func (f *File) Load() error {
	content, err := f.read()
	if err != nil {
		return err
	}
	before := f.seen
	f.seen = content
	if f.content != nil && (bytes.Equal(content, f.content) || !bytes.Equal(content, before)) {
		return nil // nothing new, or a program may be writing the file
	}
	entries, err := f.parse(string(content))
	if err != nil {
		return err
	}
	if err := f.Set.Replace(f.Kind.String()+"s of "+f.Path, entries); err != nil {
		return fmt.Errorf("%s: %w", f.Path, err)
	}
	if f.content != nil {
		f.Log.Info("keys were read again", zap.Stringer("kind", f.Kind), zap.String("file", f.Path), zap.Int("keys", len(entries)))
	}
	f.content = content
	return nil
}

func (f *File) read() ([]byte, error) {
	file, err := os.Open(f.Path)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("keys: %w", err)
	case len(content) > maxFileBytes:
		return nil, fmt.Errorf("%s is larger than %d bytes", f.Path, maxFileBytes)
	}
	return content, nil
}

func (f *File) parse(content string) ([]Entry, error) {
	known := map[string]bool{}
	for _, name := range f.VirtualClusters {
		known[name] = true
	}
	entries := []Entry{}
	n := 0
	for line := range strings.Lines(content) {
		n++
		text, _, _ := strings.Cut(line, "#")
		fields := strings.Fields(text)
		if len(fields) == 0 {
			continue
		}
		hash, ok := accesskey.ParseHash(fields[len(fields)-1])
		e, want, columns := Entry{Hash: hash, Kind: f.Kind}, "the SHA-256 of a key in 64 hexadecimal digits", 1
		if f.Kind != Operator {
			e.VirtualCluster, want, columns = fields[0], "the name of a virtual cluster and "+want, 2
		}
		switch {
		case len(fields) != columns || !ok: // the line may hold a key, so it is not printed
			return nil, fmt.Errorf("%s:%d: want %s", f.Path, n, want)
		case e.Hash == accesskey.HashOf(""):
			return nil, fmt.Errorf("%s:%d: %w", f.Path, n, ErrEmpty)
		case f.Kind != Operator && !known[e.VirtualCluster]:
			return nil, fmt.Errorf("%s:%d: virtual cluster %.249q is none of --virtual-cluster", f.Path, n, e.VirtualCluster)
		case len(entries) == maxFileKeys:
			return nil, fmt.Errorf("%s:%d: more than %d keys", f.Path, n, maxFileKeys)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// Run loads the file each second until ctx ends, and returns nil. While Load returns an error, the earlier keys stay. Run logs each new error once.
func (f *File) Run(ctx context.Context) error {
	tick := time.NewTicker(readPause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		fault := ""
		if err := f.Load(); err != nil {
			fault = err.Error()
		}
		if fault != "" && fault != f.fault {
			f.Log.Error("keys cannot be read again, the earlier ones stay", zap.String("file", f.Path), zap.String("error", fault))
		}
		f.fault = fault
	}
}
