package workloads

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write golden files")

func TestAll_EveryFileIsListedNamedAndValid(t *testing.T) {
	listed := map[string]bool{}
	for _, e := range All() {
		listed[e.Path] = true
		require.Regexp(t, `^# Source: .+`, e.Text, e.Name)
		require.NotEmpty(t, e.Source())
		require.NotEmpty(t, e.About())
		if e.Kind == Perf {
			c, err := e.Options()
			require.NoError(t, err)
			c.ApplyDefaults()
			require.NoError(t, c.Validate(), e.Name)
			continue
		}
		w, err := e.Workload()
		require.NoError(t, err)
		require.Equal(t, e.Name, w.Name)
		d, err := e.DriverFile()
		require.NoError(t, err)
		require.Equal(t, e.Driver, d.Name)
		require.Contains(t, e.Text, "Driver: "+e.Driver+".")
		listed["drivers/"+e.Driver+".yaml"] = true
	}
	require.NoError(t, fs.WalkDir(Files(), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			require.True(t, listed[path], "%s is in no list", path)
		}
		return err
	}))
}

func TestSelect(t *testing.T) {
	some, err := Select([]string{"azure-1g", "warpstream-vanity"})
	require.NoError(t, err)
	require.Len(t, some, 2)
	require.Equal(t, "warpstream-vanity", some[0].Name, "not in the order of the list")
	_, err = Select([]string{"vanity", "azure-1g"})
	require.ErrorIs(t, err, ErrUnknown)
	require.ErrorContains(t, err, "unknown workload vanity, want some of warpstream-vanity, ")
}

// The golden file is what `bench matrix --scale 0.02 --duration 1m` makes of every workload.
func TestScale_Golden(t *testing.T) {
	var b strings.Builder
	for _, e := range All() {
		settings, err := scaledSettings(e, Scale{Factor: 0.02, Duration: time.Minute})
		require.NoError(t, err)
		fmt.Fprintf(&b, "%s\n", e.Name)
		for _, s := range settings {
			mark := " "
			if s.Original != s.Effective {
				mark = "*"
			}
			fmt.Fprintf(&b, "%s %-26s %-90s %s\n", mark, s.Name, s.Original, s.Effective)
		}
		b.WriteByte('\n')
	}
	golden(t, "scaled.txt", b.String())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func scaledSettings(e Entry, s Scale) ([]Setting, error) {
	if e.Kind == Perf {
		c, err := e.Options()
		if err != nil {
			return nil, err
		}
		c, settings := s.Options(c)
		return settings, c.Validate()
	}
	w, err := e.Workload()
	if err != nil {
		return nil, err
	}
	w, settings := s.Workload(w)
	return settings, w.Validate()
}

func TestScale_OfNothingChangesNothing(t *testing.T) {
	for _, e := range All() {
		settings, err := scaledSettings(e, Scale{})
		require.NoError(t, err)
		for _, s := range settings {
			require.Equal(t, s.Original, s.Effective, "%s %s", e.Name, s.Name)
		}
	}
}

// TestScale_PhasesAddUp: whatever the length, a workload takes as long as asked for, and its test gets at least half.
func TestScale_PhasesAddUp(t *testing.T) {
	for _, length := range []time.Duration{5 * time.Second, time.Minute, time.Hour} {
		for _, p := range []phases{
			{test: time.Hour},
			{warmup: time.Minute, test: 1600 * time.Minute},
			{warmup: 10 * time.Minute, test: 5 * time.Minute},
			{warmup: 5 * time.Minute, backlog: 87 * time.Minute, test: 10 * time.Minute},
		} {
			got := p.into(length)
			require.Equal(t, length, got.total())
			require.GreaterOrEqual(t, got.test, length/2)
			require.Equal(t, p.warmup == 0, got.warmup == 0, "a standing start has to stay one")
			require.Equal(t, p.backlog == 0, got.backlog == 0)
		}
	}
}

// TestScale_DayCurve: the rate at any time of the compressed curve is that of the day it stands for.
func TestScale_DayCurve(t *testing.T) {
	e, err := Select([]string{"automq-auto-scaling"})
	require.NoError(t, err)
	w, err := e[0].Workload()
	require.NoError(t, err)
	day, err := w.Curve()
	require.NoError(t, err)
	scaled, _ := Scale{Factor: 0.5, Duration: w.Warmup() + w.Test()}.Workload(w)
	small, err := scaled.Curve()
	require.NoError(t, err)
	midnight := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for at := time.Duration(0); at < w.Test(); at += 7 * time.Minute {
		now := midnight.Add(at)
		require.InDelta(t, day.At(midnight, now)/2, small.At(midnight, now), 0.01, at)
	}
}
