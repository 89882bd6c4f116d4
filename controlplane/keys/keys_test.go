package keys_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/freshet-io/freshet/controlplane/keys"
	"github.com/freshet-io/freshet/internal/accesskey"
)

func entry(key, virtualCluster string) keys.Entry {
	return keys.Entry{Hash: accesskey.HashOf(key), Kind: keys.Agent, VirtualCluster: virtualCluster}
}

func TestSet_Replace(t *testing.T) {
	s := keys.NewSet()
	require.Nil(t, s.Grant(""))
	require.NoError(t, s.Replace("a", []keys.Entry{entry("k", "one"), entry("l", "one")}))
	require.NoError(t, s.Replace("b", []keys.Entry{entry("k", "one"), entry("m", "two")}))
	k, l, m := s.Grant("k"), s.Grant("l"), s.Grant("m")
	require.Equal(t, "one", k.VirtualCluster)
	require.Equal(t, "two", m.VirtualCluster)

	require.ErrorIs(t, s.Replace("b", []keys.Entry{entry("k", "two")}), keys.ErrTaken)
	require.ErrorIs(t, s.Replace("b", []keys.Entry{{Hash: accesskey.HashOf("k"), Kind: keys.Replica}}), keys.ErrTaken)
	require.ErrorIs(t, s.Replace("c", []keys.Entry{entry("n", "one"), entry("n", "two")}), keys.ErrTaken)
	require.Same(t, m, s.Grant("m"), "a refused change changes nothing")
	require.Nil(t, s.Grant("n"))

	require.NoError(t, s.Replace("a", nil)) // k is in b too
	require.Same(t, k, s.Grant("k"))
	require.NoError(t, k.Revoked().Err())
	require.Nil(t, s.Grant("l"))
	require.Error(t, l.Revoked().Err())

	require.NoError(t, s.Replace("b", []keys.Entry{entry("m", "one")})) // a key of another virtual cluster is another grant
	require.Error(t, m.Revoked().Err())
	require.Equal(t, "one", s.Grant("m").VirtualCluster)
}

// TestSet_RandomSources compares a Set with its sources kept apart, over random changes.
func TestSet_RandomSources(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 0))
		s, model := keys.NewSet(), map[string][]keys.Entry{}
		for range 200 {
			source := string(rune('a' + r.IntN(3)))
			var entries []keys.Entry
			for range r.IntN(4) {
				entries = append(entries, entry(strconv.Itoa(r.IntN(6)), strconv.Itoa(r.IntN(2))))
			}
			want, clash := map[accesskey.Hash]keys.Entry{}, false
			for _, all := range append(others(model, source), entries) {
				for _, e := range all {
					other, ok := want[e.Hash]
					clash = clash || ok && other != e
					want[e.Hash] = e
				}
			}
			before := map[string]*keys.Grant{}
			for k := range 6 {
				before[strconv.Itoa(k)] = s.Grant(strconv.Itoa(k))
			}
			err := s.Replace(source, entries)
			require.Equal(t, clash, err != nil, "seed %d: %v", seed, err)
			if !clash {
				model[source] = entries
			}
			for k, g := range before {
				now := s.Grant(k)
				if clash {
					require.Same(t, g, now, "seed %d", seed)
					continue
				}
				e, ok := want[accesskey.HashOf(k)]
				require.Equal(t, ok, now != nil, "seed %d", seed)
				if ok {
					require.Equal(t, e, now.Entry, "seed %d", seed)
				}
				if g != nil {
					require.Equal(t, g != now, g.Revoked().Err() != nil, "seed %d", seed)
					require.Equal(t, ok && g.Entry == e, g == now, "seed %d", seed)
				}
			}
		}
	}
}

func others(model map[string][]keys.Entry, source string) (all [][]keys.Entry) {
	for name, entries := range model {
		if name != source {
			all = append(all, entries)
		}
	}
	return all
}

func line(name, key string) string {
	return name + " " + accesskey.HashOf(key).Digits() + "\n"
}

// file returns a File with content, and a function that writes it anew.
func file(t *testing.T, content string) (f *keys.File, write func(string)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	write = func(content string) { require.NoError(t, os.WriteFile(path, []byte(content), 0o600)) }
	write(content)
	return &keys.File{Path: path, Kind: keys.Agent, VirtualClusters: []string{"one", "two"}, Set: keys.NewSet(), Log: zap.NewNop()}, write
}

func TestFile_Load(t *testing.T) {
	f, _ := file(t, "# agents of August\n\n"+line("one", "k")+"\ttwo "+strings.ToUpper(strings.Fields(line("", "l"))[0])+" # the second\r\n")
	require.NoError(t, f.Load())
	require.Equal(t, "one", f.Set.Grant("k").VirtualCluster)
	require.Equal(t, "two", f.Set.Grant("l").VirtualCluster)
}

func TestFile_LoadRefuses(t *testing.T) {
	const want = "keys:2: want the name of a virtual cluster and the SHA-256 of a key in 64 hexadecimal digits"
	many := strings.Builder{}
	for i := range 20_001 {
		many.WriteString(line("one", fmt.Sprint(i)))
	}
	for content, fault := range map[string]string{
		"one fsk_secret\n":                          want,
		line("one", "k")[:60] + "\n":                want,
		line("one", "k")[:64] + "xyz\n":             want,
		strings.Fields(line("one", "k"))[1] + "\n":  want,
		line("one", "k")[:68] + " " + "more" + "\n": want,
		line("three", "k"):                          `keys:2: virtual cluster "three" is none of --virtual-cluster`,
		line("one", ""):                             "keys:2: the SHA-256 of no key",
		line("one", "k") + line("two", "k"):         "one key for two virtual clusters",
		many.String():                               "keys:20002: more than 20000 keys",
		strings.Repeat("#", 4<<20):                  "is larger than 4194304 bytes",
	} {
		f, _ := file(t, "\n"+content)
		err := f.Load()
		require.ErrorContains(t, err, fault)
		require.NotContains(t, err.Error(), "secret")
		require.Nil(t, f.Set.Grant("k"))
	}
	f, _ := file(t, strings.Join(strings.SplitAfter(many.String(), "\n")[:20_000], ""))
	require.NoError(t, f.Load())
	f.Path += "-absent"
	require.ErrorContains(t, f.Load(), "no such file")
}

func TestFile_OfOperators(t *testing.T) {
	f, write := file(t, strings.TrimSpace(line("", "k"))+"  # the team's\n")
	f.Kind = keys.Operator
	require.NoError(t, f.Load())
	require.Equal(t, keys.Entry{Hash: accesskey.HashOf("k"), Kind: keys.Operator}, f.Set.Grant("k").Entry)
	write(line("one", "k"))
	require.NoError(t, f.Load(), "a program may be writing")
	require.ErrorContains(t, f.Load(), "keys:1: want the SHA-256 of a key in 64 hexadecimal digits")
}

func TestFile_RunReadsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, write := file(t, line("one", "k")+line("one", "l"))
		core, logged := observer.New(zap.InfoLevel)
		f.Log = zap.New(core)
		require.NoError(t, f.Load())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- f.Run(ctx) }()
		k := f.Set.Grant("k")

		write("one damaged\n")
		time.Sleep(10 * time.Second)
		require.NoError(t, k.Revoked().Err(), "the earlier keys stay")
		require.NoError(t, os.Remove(f.Path))
		time.Sleep(10 * time.Second)
		require.Same(t, k, f.Set.Grant("k"))
		require.Len(t, logged.All(), 2, "each fault is logged once")

		write(line("one", "l") + line("two", "m"))
		time.Sleep(3 * time.Second)
		require.Nil(t, f.Set.Grant("k"))
		require.Error(t, k.Revoked().Err())
		require.Equal(t, "two", f.Set.Grant("m").VirtualCluster)
		write("")
		time.Sleep(3 * time.Second)
		require.Nil(t, f.Set.Grant("l"))
		require.Equal(t, "keys were read again", logged.All()[3].Message)
		cancel()
		require.NoError(t, <-ended)
	})
}

// TestFile_NamedAsAnotherSource: the path of a file is the name of another source.
func TestFile_NamedAsAnotherSource(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("replicas", []byte(line("one", "k")), 0o600))
	s := keys.NewSet()
	f := &keys.File{Path: "replicas", Kind: keys.Agent, VirtualClusters: []string{"one"}, Set: s, Log: zap.NewNop()}
	require.NoError(t, f.Load())
	require.NoError(t, s.Replace("replicas", []keys.Entry{{Hash: accesskey.HashOf("r"), Kind: keys.Replica}})) // as replicaKey.learn
	require.NoError(t, f.Load())
	require.NotNil(t, s.Grant("r"))
	require.NotNil(t, s.Grant("k"), "the keys of the file are withdrawn, and a further Load does not bring them back")
}

// TestFile_HalfWritten: a program writes the file in place, and a Load comes between truncation and write, or between two pages. No key is withdrawn.
func TestFile_HalfWritten(t *testing.T) {
	for _, half := range []string{"", line("one", "k"), line("one", "k") + "# the se"} {
		f, write := file(t, line("one", "k")+line("one", "l"))
		require.NoError(t, f.Load())
		l := f.Set.Grant("l")
		write(half)
		_ = f.Load()
		write(line("one", "k") + line("one", "l"))
		require.NoError(t, f.Load())
		require.NoError(t, l.Revoked().Err(), "%d bytes were written", len(half))
	}
}
