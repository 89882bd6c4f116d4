package kube

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
	"github.com/freshet-io/freshet/test/stock"
)

// staysInZone checks that nothing of clients and agents crosses between the nodes any more once clients have refreshed their metadata.
// Both zones have agents.
func (s *scene) staysInZone() {
	s.t.Helper()
	const (
		quiet = 10 * time.Second
		rules = `table inet zones {
			set flows { type ipv4_addr . inet_service . ipv4_addr . inet_service; flags dynamic; size 65535; counter; }
			chain in { type filter hook prerouting priority -310; iifname eth0 jump count; }
			chain out { type filter hook postrouting priority 310; oifname eth0 jump count; }
			chain count {
				tcp dport { 9092-9095, 9292-9299, 7070 } add @flows { ip saddr . tcp sport . ip daddr . tcp dport }
				tcp sport { 9092-9095, 9292-9299, 7070 } add @flows { ip saddr . tcp sport . ip daddr . tcp dport }
			}
		}`
	)
	_, err := run(rules, "in", "2", "nft", "-f", "-")
	require.NoError(s.t, err)
	defer s.script("in", "2", "nft", "delete", "table", "inet", "zones")
	began, last := time.Now(), time.Now()
	var before map[string]int64
	var latest []string // flows that had bytes at the last count that changed
	for time.Since(last) < quiet && time.Since(began) < stock.Refresh+4*quiet {
		<-time.After(time.Second) // between two counts
		now := s.crossing()
		if maps.Equal(now, before) {
			continue
		}
		latest = nil
		for flow, bytes := range now {
			if bytes != before[flow] {
				latest = append(latest, flow)
			}
		}
		last, before = time.Now(), now
	}
	var sum int64
	for _, bytes := range before {
		sum += bytes
	}
	s.t.Logf("the last of %d bytes of clients and agents crossed between the nodes %s after zone 2 had agents: %q", sum, last.Sub(began).Round(time.Second), latest)
	if time.Since(last) < quiet {
		s.broken("clients or agents of a zone still reach the other one")
	}
}

// crossing returns how many bytes each direction of a connection has sent over node 2's link since the rules of staysInZone came.
func (s *scene) crossing() map[string]int64 {
	s.t.Helper()
	var listed struct {
		Nftables []struct {
			Set struct {
				Elem []struct {
					Elem struct {
						Val     struct{ Concat []any }
						Counter struct{ Bytes int64 }
					}
				}
			}
		}
	}
	require.NoError(s.t, json.Unmarshal([]byte(s.script("in", "2", "nft", "--json", "list", "table", "inet", "zones")), &listed))
	flows := make(map[string]int64)
	for _, o := range listed.Nftables {
		for _, e := range o.Set.Elem {
			v := e.Elem.Val.Concat
			flows[fmt.Sprintf("%v:%v to %v:%v", v[0], v[1], v[2], v[3])] = e.Elem.Counter.Bytes
		}
	}
	return flows
}

// wrongKeys rolls out agents that the object store refuses: the first pod of each zone must stop the rollout.
func (s *scene) wrongKeys() {
	s.t.Helper()
	s.kubectl("create", "secret", "generic", "wrong", "--from-literal=AWS_ACCESS_KEY_ID=access", "--from-literal=AWS_SECRET_ACCESS_KEY=wrong")
	before := make(map[string]bool)
	for _, p := range s.pods(agents) {
		before[p.Metadata.UID] = true
	}
	s.helm(append([]string{"upgrade", "freshet", chart, "--values", "values.yaml", "--set", "agents.envFrom[0].secretRef.name=wrong"}, s.values...)...)
	harness.Await(s.t, "a new pod of each zone has started", func() bool { return len(s.pods(agents)) == len(before)+2 })
	harness.During(15*time.Second, func() {
		kept, added := 0, 0
		for _, p := range s.pods(agents) {
			switch {
			case !before[p.Metadata.UID]:
				added++
				require.False(s.t, p.ready(), "%s is ready with wrong keys", p.Metadata.Name)
			case p.ready() && p.Metadata.Deletion == nil:
				kept++
			}
		}
		require.Equal(s.t, len(before), kept, "the rollout went on")
		require.Equal(s.t, 2, added)
	})
	s.helm("rollback", "freshet")
	s.await(agents, len(before))
}

// outOfMemory takes from an agent what it does not use at the moment, again and again, until it needs more and the kernel kills it.
func (s *scene) outOfMemory() {
	s.t.Helper()
	const margin = 256 << 10 // the kernel counts in batches of pages
	victim := s.pods(ofZone("zone-1"))[0]
	group, err := memoryGroup(victim.container())
	require.NoError(s.t, err)
	usage, limit := "memory.usage_in_bytes", "memory.limit_in_bytes"
	if _, err := os.Stat(filepath.Join(group, usage)); err != nil { // control groups version 2
		usage, limit = "memory.current", "memory.max"
	}
	restarted := func() bool {
		for _, p := range s.pods(agents) {
			if p.Metadata.UID == victim.Metadata.UID {
				return p.Status.Containers[0].Restarts > 0 && p.Status.Containers[0].Last.Terminated.Reason == "OOMKilled"
			}
		}
		return false
	}
	harness.Await(s.t, "the kernel has killed "+victim.Metadata.Name, func() bool {
		used, err := os.ReadFile(filepath.Join(group, usage))
		if err == nil {
			n, err := strconv.ParseInt(string(bytes.TrimSpace(used)), 10, 64)
			require.NoError(s.t, err)
			_ = os.WriteFile(filepath.Join(group, limit), fmt.Append(nil, n+margin), 0) // refused if it uses more by now
		}
		return restarted()
	})
	s.await(agents, 4)
}

// memoryGroup returns the control group of a container's memory.
func memoryGroup(container string) (found string, err error) {
	err = fs.WalkDir(os.DirFS("/sys/fs/cgroup"), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil { // groups come and go
			return fs.SkipDir
		}
		if !d.IsDir() || !strings.Contains(d.Name(), container) {
			return nil
		}
		for _, f := range []string{"memory.usage_in_bytes", "memory.current"} {
			if _, err := os.Stat(filepath.Join("/sys/fs/cgroup", path, f)); err == nil {
				found = filepath.Join("/sys/fs/cgroup", path)
				return fs.SkipAll
			}
		}
		return nil
	})
	if found == "" && err == nil {
		err = fmt.Errorf("no control group of container %s", container)
	}
	return found, err
}

// lostNode cuts node 2 off for a while, and waits until its agents are back.
func (s *scene) lostNode() {
	s.t.Helper()
	s.script("cut", "2")
	<-time.After(20 * time.Second) // how long the node is away
	s.script("join", "2")
	s.await(agents, 4)
	s.await(controlPlanes, 2)
}

// lostVolume follows the steps of docs/kubernetes.md for a lost volume of etcd, on a member that is healthy until then. Members refuse changes until they have been
// connected for some seconds.
func (s *scene) lostVolume() {
	s.t.Helper()
	const member = "freshet-etcd-2"
	s.upgrade("etcd.clusterState=existing")
	s.rollout("statefulset/freshet-etcd")
	old := s.etcdMembers()[member]
	require.NotZero(s.t, old)
	harness.Await(s.t, "etcd has removed the member", func() bool {
		_, _ = s.etcdctl("member", "remove", fmt.Sprintf("%x", old))
		return !slices.Contains(slices.Collect(maps.Values(s.etcdMembers())), old)
	})
	harness.Await(s.t, "etcd has added the member", func() bool {
		_, err := s.etcdctl("member", "add", member, "--peer-urls=http://"+member+".freshet-etcd."+namespace+".svc:2380")
		return err == nil
	})
	s.kubectl("delete", "persistentvolumeclaim", "data-"+member, "--wait=false")
	s.kubectl("delete", "pod", member, "--force", "--grace-period=0")
	s.script("volume", namespace, "data-"+member, "2")
	s.rollout("statefulset/freshet-etcd")
	s.upgrade("etcd.clusterState=new")
	s.rollout("statefulset/freshet-etcd")
}

func (s *scene) etcdctl(args ...string) (string, error) {
	return run("", append([]string{"kubectl", "--namespace", namespace, "exec", "freshet-etcd-0", "--", "etcdctl"}, args...)...)
}

// etcdMembers returns the members of etcd by name; one that has not started has none. A member that has just started may not answer at once.
func (s *scene) etcdMembers() map[string]uint64 {
	s.t.Helper()
	var out string
	harness.Await(s.t, "etcd lists its members", func() (ok bool) {
		var err error
		out, err = s.etcdctl("member", "list", "--write-out=json")
		return err == nil
	})
	var listed struct {
		Members []struct {
			ID   uint64
			Name string
		}
	}
	require.NoError(s.t, json.Unmarshal([]byte(out), &listed))
	ids := make(map[string]uint64)
	for _, m := range listed.Members {
		ids[m.Name] = m.ID
	}
	return ids
}
