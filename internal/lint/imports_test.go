package lint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/freshet-io/freshet"

// ban forbids packages to depend on others, directly or through packages of this module. Paths are relative to the
// module unless they have a dot in their first element; a trailing /... means the package and all below it.
type ban struct {
	from   []string
	except []string // packages of from that the ban leaves out
	on     []string
	but    []string // packages of on that are allowed
	why    string
}

// stateMachine is what runs inside Apply on every replica.
var stateMachine = []string{"metadata", "metadata/commit/...", "metadata/extent/...", "metadata/id/...", "metadata/internal/..."}

// bans are the dependency rule (ARCHITECTURE.md, File map): cmd -> agent, controlplane, bench; agent -> the control plane's client
// and API types, metadata types, kafkaproto, objstore; controlplane -> metadata, objstore, kafkaproto.
var bans = []ban{
	{
		from: stateMachine,
		on:   []string{"agent/...", "controlplane/...", "kafkaproto/...", "objstore/...", "bench/...", "cmd/..."},
		why:  "the state machine imports none of the other parts: same log, same state, on every replica",
	},
	{
		from: stateMachine,
		on:   []string{"metadata/metalog/...", "metadata/snapshot/..."},
		why:  "the state machine has no I/O: its log and its snapshots are driven from outside",
	},
	{
		from: stateMachine,
		on:   []string{"internal/wait"},
		why:  "the state machine has no clock: time arrives inside commands",
	},
	{
		from: []string{"metadata/..."},
		on:   []string{"agent/...", "controlplane/...", "kafkaproto/...", "bench/...", "cmd/..."},
		why:  "metadata is below both sides",
	},
	{
		from: []string{"objstore/..."},
		on:   []string{"agent/...", "controlplane/...", "kafkaproto/...", "metadata/...", "bench/...", "cmd/..."},
		but:  []string{"metadata/id"},
		why:  "the object store knows objects, not what they mean; only bundles are named by submissions",
	},
	{
		from: []string{"kafkaproto/..."},
		on:   []string{"agent/...", "controlplane/...", "metadata/...", "objstore/...", "bench/...", "cmd/..."},
		why:  "the protocol is a leaf that both sides share",
	},
	{
		from: []string{"agent/..."},
		on:   []string{"controlplane/..."},
		but:  []string{"controlplane/api", "controlplane/client"},
		why:  "an agent meets the control plane through its typed client only",
	},
	{
		from: []string{"agent/..."},
		on:   []string{"metadata/metalog/...", "metadata/snapshot/...", "go.etcd.io/..."},
		why:  "agents hold nothing (I5) and never see the log",
	},
	{
		from: []string{"controlplane/client", "controlplane/api"},
		on:   []string{"controlplane/...", "metadata/metalog/...", "metadata/snapshot/...", "go.etcd.io/..."},
		but:  []string{"controlplane/client", "controlplane/api"},
		why:  "the client is linked into agents and must not bring the server along",
	},
	{
		from: []string{"controlplane/..."},
		on:   []string{"agent/...", "bench/...", "cmd/..."},
		why:  "the control plane sees no records (I8) and knows agents by its API alone",
	},
	{
		from: []string{"cmd/freshet"},
		on:   []string{"bench/...", "gonum.org/..."},
		why:  "users of the server do not carry the benchmarks: they are in cmd/freshet-bench",
	},
	{
		from: []string{"..."},
		except: []string{
			"cmd/...", "test/...", "bench/...", "internal/lint", "internal/dev/...", "internal/cli/...", "internal/program", "internal/config/...",
		},
		on: []string{
			"internal/config/...", "internal/cli/...", "internal/program", "internal/dev/...", "cmd/...",
			"github.com/spf13/cobra", "github.com/knadh/koanf/...",
		},
		why: "flags, environment and files are read in cmd; parts take configuration structs",
	},
	{
		from:   []string{"..."},
		except: []string{"internal/etcdserver", "internal/dev/...", "cmd/...", "test/...", "bench/..."},
		on:     []string{"go.etcd.io/etcd/server/v3/...", "internal/etcdserver"},
		why:    "an etcd server is only linked where one is run",
	},
}

// pkg is what `go list` tells of a package.
type pkg struct {
	ImportPath string
	Dir        string
	Imports    []string
	GoFiles    []string
}

func TestImports(t *testing.T) {
	pkgs := list(t)
	for _, b := range bans {
		t.Run(strings.Join(b.from, " "), func(t *testing.T) {
			for _, name := range slices.Sorted(maps.Keys(pkgs)) {
				if !matchAny(b.from, name) || matchAny(b.except, name) {
					continue
				}
				if chain := find(pkgs, name, b); chain != nil {
					t.Errorf("%s must not depend on %s: %s\n\tby %s", name, chain[len(chain)-1], b.why, strings.Join(chain, " -> "))
				}
			}
		})
	}
}

// TestImports_RulesMatch keeps a rule from going blind when a package moves.
func TestImports_RulesMatch(t *testing.T) {
	names := slices.Collect(maps.Keys(list(t)))
	for _, b := range bans {
		for _, pattern := range b.from {
			// internal packages may come and go below a part
			if strings.Contains(pattern, "internal/") {
				continue
			}
			require.True(t, slices.ContainsFunc(names, func(n string) bool { return match(pattern, n) }), "no package matches %q", pattern)
		}
	}
}

// find gives the shortest chain of imports from a package to one that the ban forbids, or nil.
func find(pkgs map[string]pkg, from string, b ban) []string {
	chains := [][]string{{from}}
	seen := map[string]bool{from: true}
	for len(chains) > 0 {
		chain := chains[0]
		chains = chains[1:]
		for _, next := range pkgs[chain[len(chain)-1]].Imports {
			next = relative(next)
			if seen[next] {
				continue
			}
			seen[next] = true
			longer := append(slices.Clip(chain), next)
			if matchAny(b.on, next) && !matchAny(b.but, next) {
				return longer
			}
			if _, ours := pkgs[next]; ours {
				chains = append(chains, longer)
			}
		}
	}
	return nil
}

// list gives the module's packages by path relative to it. Tests do not change them.
func list(t *testing.T) map[string]pkg {
	t.Helper()
	pkgs, err := listed()
	require.NoError(t, err)
	require.NotEmpty(t, pkgs)
	return pkgs
}

// listed asks the go command once, for all tests.
var listed = sync.OnceValues(func() (map[string]pkg, error) {
	out, err := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,Imports,GoFiles", module+"/...").Output()
	if err != nil {
		return nil, err
	}
	pkgs := map[string]pkg{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs, nil
		} else if err != nil {
			return nil, err
		}
		pkgs[relative(p.ImportPath)] = p
	}
})

func relative(importPath string) string {
	if importPath == module {
		return "."
	}
	return strings.TrimPrefix(importPath, module+"/")
}

func matchAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return match(p, name) })
}

func match(pattern, name string) bool {
	if pattern == "..." {
		return true
	}
	if tree, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == tree || strings.HasPrefix(name, tree+"/")
	}
	return name == pattern
}

func TestFind(t *testing.T) {
	pkgs := map[string]pkg{}
	for name, imports := range map[string][]string{"a": {"b", "fmt"}, "b": {"c"}, "c": {"example.com/x/y"}} {
		p := pkg{}
		for _, i := range imports {
			if _, std := map[string]bool{"fmt": true, "example.com/x/y": true}[i]; !std {
				i = path.Join(module, i)
			}
			p.Imports = append(p.Imports, i)
		}
		pkgs[name] = p
	}
	require.Equal(t, []string{"a", "b", "c"}, find(pkgs, "a", ban{on: []string{"c"}}))
	require.Equal(t, []string{"b", "c", "example.com/x/y"}, find(pkgs, "b", ban{on: []string{"example.com/x/..."}}))
	require.Nil(t, find(pkgs, "a", ban{on: []string{"c/...", "b"}, but: []string{"b", "c"}}), fmt.Sprint(pkgs))
	require.Nil(t, find(pkgs, "c", ban{on: []string{"a", "b"}}))
}
