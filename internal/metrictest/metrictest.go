// Package metrictest pins the names, labels and help of metrics in a golden file per package, testdata/metrics.golden,
// of which docs/metrics.md is made.
package metrictest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// File is the golden file's path in its package.
const File = "testdata/metrics.golden"

var write = flag.Bool("golden", false, "write golden files")

// Registry records what is registered with it. It keeps nothing from being registered twice.
type Registry struct{ lines map[string]bool }

// NewRegistry makes an empty registry.
func NewRegistry() *Registry { return &Registry{lines: map[string]bool{}} }

// Register implements prometheus.Registerer.
func (r *Registry) Register(c prometheus.Collector) error {
	descs := make(chan *prometheus.Desc, 100)
	go func() {
		c.Describe(descs)
		close(descs)
	}()
	for d := range descs {
		r.lines[line(c, d.String())] = true
	}
	return nil
}

// MustRegister implements prometheus.Registerer.
func (r *Registry) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		_ = r.Register(c) // it has no errors
	}
}

// Unregister implements prometheus.Registerer.
func (r *Registry) Unregister(prometheus.Collector) bool { return false }

var parts = regexp.MustCompile(`^Desc\{fqName: "(.*?)", help: "(.*?)", (?:unit: ".*?", )?constLabels: \{(.*?)\}, variableLabels: \{(.*?)\}`)

// line is one metric: its name, kind and labels, and its help.
func line(c prometheus.Collector, desc string) string {
	m := parts.FindStringSubmatch(desc)
	if m == nil {
		return desc
	}
	kind := kind(c, m[1])
	var labels []string
	for _, pair := range strings.Split(m[3], ",") {
		if name, _, ok := strings.Cut(pair, "="); ok {
			labels = append(labels, name)
		}
	}
	if m[4] != "" {
		labels = append(labels, strings.Split(m[4], ",")...)
	}
	if len(labels) > 0 {
		kind += " by " + strings.Join(labels, ", ")
	}
	return fmt.Sprintf("%s (%s): %s", m[1], kind, strings.ReplaceAll(m[2], `\"`, `"`))
}

// kind tells a collector's kind by its type, else by its samples, else by its name.
func kind(c prometheus.Collector, name string) string {
	switch c.(type) {
	case *prometheus.CounterVec:
		return "counter"
	case *prometheus.GaugeVec:
		return "gauge"
	case *prometheus.HistogramVec:
		return "histogram"
	}
	samples := make(chan prometheus.Metric, 1000)
	go func() {
		c.Collect(samples)
		close(samples)
	}()
	found := ""
	for s := range samples {
		var m dto.Metric
		switch err := s.Write(&m); {
		case err != nil:
		case m.Counter != nil:
			found = "counter"
		case m.Histogram != nil:
			found = "histogram"
		default:
			found = "gauge"
		}
	}
	switch {
	case found != "":
		return found
	case strings.HasSuffix(name, "_total"):
		return "counter"
	}
	return "gauge"
}

// Text is what was registered, a line per metric, in order of names.
func (r *Registry) Text() string {
	var lines []string
	for l := range r.lines {
		lines = append(lines, l+"\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// Golden compares what was registered with the golden file of the package under test. The flag -golden writes it.
func (r *Registry) Golden(t *testing.T) {
	t.Helper()
	if *write {
		if err := os.MkdirAll(filepath.Dir(File), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(File, []byte(r.Text()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(File)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Text(); got != string(want) {
		t.Fatalf("metrics are not those of %s, which go test -golden writes anew; they are now:\n%s", File, got)
	}
	for l := range r.lines {
		if name, _, _ := strings.Cut(l, " "); !strings.HasPrefix(name, "freshet_") || strings.HasSuffix(l, ": ") {
			t.Errorf("no prefix or no help: %s", l)
		}
	}
}
