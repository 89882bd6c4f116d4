package upgrade

import (
	"fmt"
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

// build is one of the two builds.
type build int

const (
	baseBuild build = iota
	treeBuild
)

func (b build) String() string { return [...]string{"base", "tree"}[b] }

func (b build) other() build { return 1 - b }

// stopLimit bounds the wait for a process to end after SIGTERM.
const stopLimit = time.Minute

// pair is the build of a process and the build of the owner, or of the snapshot that the process loaded.
type pair struct{ process, owner build }

// fleet is a cluster whose processes change their build.
type fleet struct {
	*harness.Cluster
	t        *testing.T
	binaries [2]string // by build
	agents   []build   // of Cluster.Agents
	replicas []build   // of Cluster.ControlPlanes

	// How often each combination occurred: an agent with the owner, a replica beside the owner, a start from a snapshot.
	agentPairs, replicaPairs, snapshotPairs map[pair]int
	snapshots                               map[string]build // by name, the build that took the snapshot
}

func startFleet(t *testing.T, base string) *fleet {
	t.Helper()
	f := &fleet{
		t: t, binaries: [2]string{baseBuild: base, treeBuild: harness.Freshet(t)},
		agentPairs: map[pair]int{}, replicaPairs: map[pair]int{}, snapshotPairs: map[pair]int{}, snapshots: map[string]build{},
	}
	f.Cluster = harness.StartCluster(t, harness.ClusterConfig{
		Agents: 4, ControlPlanes: 3, Zones: []string{"a", "b"}, Binary: base,
		AgentFlags:   []string{"--put-budget", "20"},
		ControlFlags: []string{"--snapshot-bytes", "4KiB"},
	})
	f.agents, f.replicas = make([]build, len(f.Agents)), make([]build, len(f.ControlPlanes))
	return f
}

// agent restarts the next agent that is not of the build yet.
func (f *fleet) agent(to build) string {
	f.t.Helper()
	for i, a := range f.Agents {
		if f.agents[i] != to {
			took, err := a.Terminate(stopLimit)
			require.NoError(f.t, err)
			a.UseBinary(f.t, f.binaries[to])
			f.agents[i] = to
			a.Launch()
			a.AwaitReady()
			return fmt.Sprintf("%s (zone %s), stopped in %s", a.Name, a.Zone, took.Round(time.Millisecond))
		}
	}
	f.t.Fatalf("all agents are of the %s", to)
	return ""
}

// replica restarts the next control plane that is not of the build yet, the owner last. So the owner's successor is of the build.
func (f *fleet) replica(to build) string {
	f.t.Helper()
	owner, next := f.Owner(f.t), -1
	for i, p := range f.ControlPlanes {
		if f.replicas[i] != to && (next < 0 || p != owner) {
			next = i
		}
	}
	require.GreaterOrEqual(f.t, next, 0, "all control planes are of the %s", to)
	p := f.ControlPlanes[next]
	took, err := p.Terminate(stopLimit)
	require.NoError(f.t, err)
	f.noteSnapshots()
	p.UseBinary(f.t, f.binaries[to])
	f.replicas[next] = to
	p.Launch()
	p.AwaitReady()
	f.startedFromSnapshot(next)
	role := "a replica"
	if p == owner {
		role = "the owner"
	}
	return fmt.Sprintf("controlplane-%d, %s, stopped in %s", next, role, took.Round(time.Millisecond))
}

var (
	tookSnapshot   = regexp.MustCompile(`took snapshot\s.*\bsnapshot(?:=|": ")([^" ]+)`)
	loadedSnapshot = regexp.MustCompile(`loaded snapshot\s.*\bsnapshot(?:=|": ")([^" ]+)`)
)

// noteSnapshots notes which build took which snapshot.
func (f *fleet) noteSnapshots() {
	for i, p := range f.ControlPlanes {
		for _, m := range tookSnapshot.FindAllStringSubmatch(p.Output(), -1) {
			f.snapshots[m[1]] = f.replicas[i]
		}
	}
}

// startedFromSnapshot waits until a control plane that was just started has loaded a snapshot, and notes whose.
func (f *fleet) startedFromSnapshot(replica int) {
	f.t.Helper()
	var names []string
	harness.Await(f.t, fmt.Sprintf("controlplane-%d has loaded a snapshot", replica), func() bool {
		names = loadedSnapshot.FindStringSubmatch(f.ControlPlanes[replica].Output())
		return names != nil
	})
	f.noteSnapshots()
	by, known := f.snapshots[names[1]]
	require.True(f.t, known, "no control plane logged that it took snapshot %s", names[1])
	f.snapshotPairs[pair{f.replicas[replica], by}]++
}

// settle waits until the owner has taken a snapshot, is connected to all agents and answers operators by each replica, and
// until agents that know each other share work. It notes which builds stand beside each other.
func (f *fleet) settle() {
	f.t.Helper()
	owner := f.Owner(f.t)
	harness.Await(f.t, "the owner has taken a snapshot", func() bool {
		n, err := harness.Metric(owner.HTTP, "freshet_replica_snapshots_total")
		return err == nil && n > 0
	})
	for _, a := range f.Agents {
		harness.Await(f.t, a.Name+" is connected to the owner", a.Connected)
	}
	var owners build
	for i, p := range f.ControlPlanes {
		if p == owner {
			owners = f.replicas[i]
		}
	}
	f.operated()
	f.peers()
	for i, p := range f.ControlPlanes {
		if p != owner {
			f.replicaPairs[pair{f.replicas[i], owners}]++
		}
	}
	for _, b := range f.agents {
		f.agentPairs[pair{b, owners}]++
	}
}

// served returns how many requests of an API each agent has answered since its start.
func (f *fleet) served(api string) []float64 {
	f.t.Helper()
	all := make([]float64, len(f.Agents))
	for i, a := range f.Agents {
		n, err := a.Metric("freshet_kafka_request_seconds_count", fmt.Sprintf("api=%q", api))
		require.NoError(f.t, err)
		all[i] = n
	}
	return all
}

// flows waits until each agent has answered further requests of producers and readers.
func (f *fleet) flows() {
	f.t.Helper()
	for _, api := range []string{"Produce", "Fetch"} {
		before := f.served(api)
		harness.Await(f.t, "each agent answers "+api, func() bool {
			for i, n := range f.served(api) {
				if n <= before[i] {
					return false
				}
			}
			return true
		})
	}
}

// operated checks that every replica answers an operator's call, which the others forward to the owner.
func (f *fleet) operated() {
	f.t.Helper()
	for i, p := range f.ControlPlanes {
		harness.Await(f.t, fmt.Sprintf("controlplane-%d answers operators", i), func() bool {
			require.True(f.t, p.Running(), "controlplane-%d of the %s has ended", i, f.replicas[i])
			req, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, p.HTTP+"/v1/clusters/main/zones", nil)
			require.NoError(f.t, err)
			req.Header.Set("Authorization", "Bearer "+f.OperatorKey)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return false
			}
			defer resp.Body.Close()
			return resp.StatusCode == http.StatusOK
		})
	}
}

// peers waits until agents of each zone have handed batches to another agent and have read from another's memory. Clients would not notice a
// failure: agents then write and read by themselves.
func (f *fleet) peers() {
	f.t.Helper()
	for _, m := range []struct{ name, label string }{
		{"freshet_zonewriter_handed_bytes_total", `writer="other"`},
		{"freshet_peer_requests_total", `result="ok"`},
	} {
		for _, zone := range zones {
			sum := func() (sum float64) {
				for _, a := range f.Agents {
					if a.Zone == zone {
						n, err := a.Metric(m.name, m.label)
						require.NoError(f.t, err)
						sum += n
					}
				}
				return sum
			}
			before := sum()
			harness.Await(f.t, fmt.Sprintf("%s rises in zone %s", m.name, zone), func() bool { return sum() > before })
		}
	}
}

// errorLine matches log lines of level error, such as that of a follower whose state differs from the owner's.
var errorLine = regexp.MustCompile(`(?m)^\S+\s+ERROR\s.*$`)

// healthy checks that every process runs and has logged no error, and that agents understand each other.
func (f *fleet) healthy() {
	f.t.Helper()
	for i, p := range f.ControlPlanes {
		require.True(f.t, p.Running(), "controlplane-%d has ended: %s", i, p.Output())
		require.Empty(f.t, errorLine.FindAllString(p.Output(), -1), "controlplane-%d of the %s", i, f.replicas[i])
	}
	for i, a := range f.Agents {
		require.True(f.t, a.Running(), "%s has ended: %s", a.Name, a.Output())
		require.Empty(f.t, errorLine.FindAllString(a.Output(), -1), "%s of the %s", a.Name, f.agents[i])
		refused, err := a.Metric("freshet_zonewriter_refused_frames_total")
		require.NoError(f.t, err)
		require.Zero(f.t, refused, "%s of the %s has refused frames of another agent", a.Name, f.agents[i])
	}
}

// allMet checks that every combination of builds occurred.
func (f *fleet) allMet() {
	f.t.Helper()
	for _, b := range []build{baseBuild, treeBuild} {
		for _, owner := range []build{baseBuild, treeBuild} {
			require.Positive(f.t, f.agentPairs[pair{b, owner}], "agent of the %s, owner of the %s", b, owner)
			require.Positive(f.t, f.replicaPairs[pair{b, owner}], "replica of the %s beside the owner of the %s", b, owner)
		}
		require.Positive(f.t, f.snapshotPairs[pair{b, b.other()}], "%s started from a snapshot of the %s", b, b.other())
	}
}
