package kube

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/test/harness"
)

const namespace = "freshet"

// cluster is the Kubernetes cluster of cluster.sh.
type cluster struct{ t *testing.T }

// newCluster starts a cluster, which ends with the test, and loads the images.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t}
	began := time.Now()
	c.script("up")
	t.Cleanup(func() {
		if t.Failed() {
			c.report()
		}
		c.script("down")
	})
	c.script("load")
	t.Logf("Kubernetes has started in %s", time.Since(began).Round(time.Millisecond))
	return c
}

// place is the namespace of a node, 1 or 2, or "outside".
func place(name string) testservers.Place {
	return testservers.Place{Namespace: "freshet-kube-" + name}
}

func (c *cluster) script(args ...string) string {
	c.t.Helper()
	out, err := run("", args...)
	require.NoError(c.t, err)
	return out
}

// run runs cluster.sh and returns its standard output.
func run(input string, args ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := exec.Command("./cluster.sh", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("cluster.sh %s: %w\n%s%s", strings.Join(args, " "), err, &out, &errs)
	}
	return out.String(), nil
}

func (c *cluster) kubectl(args ...string) string {
	c.t.Helper()
	return c.script(append([]string{"kubectl", "--namespace", namespace}, args...)...)
}

func (c *cluster) helm(args ...string) {
	c.t.Helper()
	c.script(append([]string{"helm", "--namespace", namespace}, args...)...)
}

// report logs what explains a failure.
func (c *cluster) report() {
	c.t.Helper()
	for _, args := range [][]string{
		{"get", "pods", "-o", "wide"},
		{"get", "events", "--sort-by=.lastTimestamp"},
		{"logs", "--prefix", "--tail=100", "--selector", "app.kubernetes.io/component=agent", "--max-log-requests=20"},
		{"logs", "--prefix", "--tail=100", "--selector", "app.kubernetes.io/component=controlplane"},
	} {
		out, err := run("", append([]string{"kubectl", "--namespace", namespace}, args...)...)
		if err != nil {
			out = err.Error()
		}
		path := filepath.Join(c.t.ArtifactDir(), strings.ReplaceAll(strings.Join(args[:2], "-"), "--", "")+args[len(args)-1][strings.LastIndexByte(args[len(args)-1], '=')+1:]+".txt")
		if err := os.WriteFile(path, []byte(out), 0o644); err != nil {
			c.t.Log(err)
		}
		c.t.Logf("kubectl %s: %s", strings.Join(args, " "), path)
	}
}

// pod is what the tests look at in a pod.
type pod struct {
	Metadata struct {
		Name     string            `json:"name"`
		UID      string            `json:"uid"`
		Labels   map[string]string `json:"labels"`
		Deletion *string           `json:"deletionTimestamp"`
	} `json:"metadata"`
	Spec struct {
		Node string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		IP         string `json:"podIP"`
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
		Containers []struct {
			ID       string `json:"containerID"`
			Restarts int    `json:"restartCount"`
			Last     struct {
				Terminated struct {
					Reason string `json:"reason"`
				} `json:"terminated"`
			} `json:"lastState"`
		} `json:"containerStatuses"`
	} `json:"status"`
}

func (p pod) ready() bool {
	for _, c := range p.Status.Conditions {
		if c.Type == "Ready" && c.Status == "True" {
			return true
		}
	}
	return false
}

// container returns the ID of the only container.
func (p pod) container() string {
	_, id, _ := strings.Cut(p.Status.Containers[0].ID, "://")
	return id
}

// pods returns the pods that a selector matches, also those that are being deleted.
func (c *cluster) pods(selector string) []pod {
	c.t.Helper()
	var list struct{ Items []pod }
	require.NoError(c.t, json.Unmarshal([]byte(c.kubectl("get", "pods", "--output=json", "--selector="+selector)), &list))
	return list.Items
}

// Selectors of pods.
const (
	agents        = "app.kubernetes.io/component=agent"
	controlPlanes = "app.kubernetes.io/component=controlplane"
)

func ofZone(zone string) string { return agents + ",freshet.io/zone=" + zone }

// await waits until exactly n pods match, all of them ready, none being deleted.
func (c *cluster) await(selector string, n int) {
	c.t.Helper()
	harness.Await(c.t, fmt.Sprintf("%d pods %s are ready", n, selector), func() bool {
		pods := c.pods(selector)
		for _, p := range pods {
			if !p.ready() || p.Metadata.Deletion != nil {
				return false
			}
		}
		return len(pods) == n
	})
}

// scale sets the number of agents of zones and waits until they are as many.
func (s *scene) scale(n int, zones ...string) {
	s.t.Helper()
	for _, zone := range zones {
		s.kubectl("scale", "deployment", "freshet-agent-"+zone, fmt.Sprintf("--replicas=%d", n))
	}
	for _, zone := range zones {
		if s.mode == kill {
			s.killEnding(zone, n)
		}
		s.await(ofZone(zone), n)
	}
}

// killEnding kills the processes of agents of a zone that are to end, which have just been told so, until there are n others.
func (s *scene) killEnding(zone string, n int) {
	s.t.Helper()
	killed := make(map[string]bool) // by UID
	harness.Await(s.t, "agents beyond those wanted are ending", func() bool {
		stay := 0
		for _, p := range s.pods(ofZone(zone)) {
			switch {
			case p.Metadata.Deletion == nil:
				stay++
			case !killed[p.Metadata.UID]:
				s.script("kill", strings.TrimPrefix(p.Spec.Node, "node"), p.container())
				killed[p.Metadata.UID] = true
			}
		}
		return stay <= n
	})
}

// rollout waits until all pods of a resource are those that it describes now.
func (c *cluster) rollout(resources ...string) {
	c.t.Helper()
	for _, r := range resources {
		c.kubectl("rollout", "status", r, "--timeout=180s")
	}
}

// address returns the cluster IP of a Service and a port.
func (c *cluster) address(service string, port int) string {
	c.t.Helper()
	return fmt.Sprintf("%s:%d", c.kubectl("get", "service", service, "--output=jsonpath={.spec.clusterIP}"), port)
}

// sum adds a metric up over the pods that a selector matches.
func (c *cluster) sum(selector string, port int, metric string) (sum float64) {
	c.t.Helper()
	for _, p := range c.pods(selector) {
		n, err := harness.MetricAt(place("1"), fmt.Sprintf("http://%s:%d", p.Status.IP, port), metric)
		require.NoError(c.t, err)
		sum += n
	}
	return sum
}
