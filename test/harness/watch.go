package harness

import (
	"bufio"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/freshet-io/freshet/internal/testservers"
)

// settle bounds how long a cluster may take to reach a state that a test waits for.
const settle = 2 * time.Minute

// scraper asks processes for their metrics. One that is paused says nothing.
var scraper = &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// Metric reads a metric of a process (its HTTP address, as http://host:port): the sum over its label sets whose text
// contains every one of the labels given, like `virtual_cluster="main"`. Absent is 0.
func Metric(address, name string, labels ...string) (float64, error) {
	return metric(scraper, address, name, labels...)
}

// MetricAt is Metric of a process that is reached from a place.
func MetricAt(place testservers.Place, address, name string, labels ...string) (float64, error) {
	return metric(place.HTTP(scraper.Timeout), address, name, labels...)
}

// Metric is Metric of this agent, wherever it runs.
func (a *Agent) Metric(name string, labels ...string) (float64, error) {
	return metric(a.place.HTTP(scraper.Timeout), a.HTTP, name, labels...)
}

func metric(client *http.Client, address, name string, labels ...string) (float64, error) {
	resp, err := client.Get(address + "/metrics")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s/metrics: %s", address, resp.Status)
	}
	sum := 0.0
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		series, value, ok := strings.Cut(lines.Text(), " ")
		family, set, _ := strings.Cut(series, "{")
		if !ok || family != name || !containsAll(set, labels) {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("%s/metrics: %s: %w", address, name, err)
		}
		sum += v
	}
	return sum, lines.Err()
}

func containsAll(s string, parts []string) bool {
	for _, p := range parts {
		if !strings.Contains(s, p) {
			return false
		}
	}
	return true
}

// Await polls until the condition holds, and fails the test if it does not within two minutes.
func Await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for deadline := time.Now().Add(settle); !holds(); <-poll.C {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", settle, what)
		}
	}
}

// During polls a check for as long as d, which fails the test by itself if what it checks does not hold. It is for
// what must stay true while a fault lasts.
func During(d time.Duration, check func()) {
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for deadline := time.Now().Add(d); time.Now().Before(deadline); <-poll.C {
		check()
	}
}

// Owner waits until a control plane says that it owns the virtual cluster, and gives it. Those in except are not
// asked: a paused owner would not answer.
func (c *Cluster) Owner(t testing.TB, except ...*ControlPlane) *ControlPlane {
	t.Helper()
	var owner *ControlPlane
	Await(t, "a control plane owns the virtual cluster", func() bool {
		for _, p := range c.ControlPlanes {
			if !p.among(except) && p.PID() != 0 && p.Owns() {
				owner = p
				return true
			}
		}
		return false
	})
	return owner
}

func (p *ControlPlane) among(others []*ControlPlane) bool {
	for _, o := range others {
		if o == p {
			return true
		}
	}
	return false
}

// Owns tells whether this control plane believes to be the owner.
func (p *ControlPlane) Owns() bool {
	owned, err := metric(p.place.HTTP(scraper.Timeout), p.HTTP, "freshet_replica_owned_logs")
	return err == nil && owned > 0
}

// Connected tells whether the agent has a stream with the owner.
func (a *Agent) Connected() bool {
	connected, err := a.Metric("freshet_agent_session_connected")
	return err == nil && connected > 0
}
