// Package workloads holds the published workloads of Kafka-compatible systems on object storage, as files: workloads and
// drivers of the OpenMessaging Benchmark, and option sets of AutoMQ's performance test. Each file names its public source
// and stands for itself: it runs unchanged with the tool it is written for.
//
// The workloads are of a gigabyte a second and of hours. Scale makes them small: see there for what shrinks.
package workloads

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/freshet-io/freshet/bench/omb"
	"github.com/freshet-io/freshet/bench/perf"
)

//go:embed omb/*.yaml drivers/*.yaml perf/*.options
var files embed.FS

// Kind says which tool a workload is for.
type Kind string

// The tools.
const (
	OMB  Kind = "omb"  // OpenMessaging Benchmark: freshet-bench run
	Perf Kind = "perf" // AutoMQ's performance test: freshet-bench perf
)

// Entry is a published workload.
type Entry struct {
	Name   string
	Kind   Kind
	Driver string // of the OpenMessaging Benchmark; "" for others
	Path   string // in the tree of files
	Text   string // the file
}

// published are the workloads with their drivers, in the order in which they run.
var published = []struct {
	name   string
	driver string // "" for options of the performance test
}{
	{"warpstream-vanity", "warpstream"},
	{"warpstream-fanout-2x", "warpstream"},
	{"warpstream-fanout-3x", "warpstream"},
	{"warpstream-256-producers", "warpstream"},
	{"warpstream-1152-partitions", "warpstream"},
	{"warpstream-4608-partitions", "warpstream"},
	{"warpstream-round-robin", "warpstream"},
	{"warpstream-scale-under-load", "warpstream"},
	{"automq-tail-read-500m", "automq"},
	{"automq-tail-read-1024m", "automq"},
	{"automq-tail-read-1100m", "automq"},
	{"automq-tail-read-2200m", "automq"},
	{"automq-catch-up-read", "automq"},
	{"automq-emergency-scaling", "automq"},
	{"automq-partition-reassignment", "automq"},
	{"automq-auto-scaling", "automq"},
	{"azure-1g", "azure"},
	{"automq-perf-tail-read", ""},
	{"automq-perf-catch-up", ""},
}

// All gives the workloads, in the order in which they run.
func All() []Entry {
	all := make([]Entry, len(published))
	for i, p := range published {
		e := Entry{Name: p.name, Kind: OMB, Driver: p.driver, Path: path.Join("omb", p.name+".yaml")}
		if p.driver == "" {
			e.Kind, e.Path = Perf, path.Join("perf", p.name+".options")
		}
		text, err := files.ReadFile(e.Path)
		if err != nil {
			panic(err) // the list above and the embedded files belong together
		}
		e.Text = string(text)
		all[i] = e
	}
	return all
}

// ErrUnknown says that there is no workload of a name.
var ErrUnknown = errors.New("unknown workload")

// Select gives the named workloads, in the order in which they run; all if there are no names.
func Select(names []string) ([]Entry, error) {
	all := All()
	if len(names) == 0 {
		return all, nil
	}
	var unknown []string
	for _, name := range names {
		if !slices.ContainsFunc(all, func(e Entry) bool { return e.Name == name }) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		known := make([]string, len(all))
		for i, e := range all {
			known[i] = e.Name
		}
		return nil, fmt.Errorf("%w %s, want some of %s", ErrUnknown, strings.Join(unknown, ", "), strings.Join(known, ", "))
	}
	return slices.DeleteFunc(all, func(e Entry) bool { return !slices.Contains(names, e.Name) }), nil
}

// Source is where the workload was published, as the first line of its file tells.
func (e Entry) Source() string {
	source, _, _ := strings.Cut(strings.TrimPrefix(e.comment()[0], "Source: "), " Driver: ")
	return strings.TrimSuffix(source, ".")
}

// About is what the first paragraph of the file says about the workload, without its source.
func (e Entry) About() string {
	lines := e.comment()[1:]
	if end := slices.Index(lines, ""); end >= 0 {
		lines = lines[:end]
	}
	return strings.Join(lines, " ")
}

// comment is the lines of comment that the file begins with, without the marks.
func (e Entry) comment() []string {
	var lines []string
	for line := range strings.Lines(e.Text) {
		text, ok := strings.CutPrefix(line, "#")
		if !ok {
			break
		}
		lines = append(lines, strings.TrimSpace(text))
	}
	return lines
}

// Workload reads an entry of Kind OMB. A warning is an error here: the files are ours.
func (e Entry) Workload() (omb.Workload, error) {
	w, warnings, err := omb.DecodeWorkload(strings.NewReader(e.Text), e.Path)
	return w, errors.Join(err, asError(warnings))
}

// DriverFile reads the driver of an entry of Kind OMB.
func (e Entry) DriverFile() (omb.Driver, error) {
	name := path.Join("drivers", e.Driver+".yaml")
	text, err := files.ReadFile(name)
	if err != nil {
		return omb.Driver{}, fmt.Errorf("driver of %s: %w", e.Name, err)
	}
	d, warnings, err := omb.DecodeDriver(strings.NewReader(string(text)), name)
	return d, errors.Join(err, asError(warnings))
}

// Options reads an entry of Kind Perf.
func (e Entry) Options() (perf.Config, error) {
	c, err := perf.ParseOptions(e.Text)
	if err != nil {
		return c, fmt.Errorf("%s: %w", e.Path, err)
	}
	return c, nil
}

func asError(warnings []string) error {
	if len(warnings) == 0 {
		return nil
	}
	return errors.New(strings.Join(warnings, "\n"))
}

// Files gives all files, drivers among them, by their paths: omb/, drivers/ and perf/.
func Files() fs.FS { return files }
