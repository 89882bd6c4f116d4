package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/bench/observe"
)

// example is a run with all there can be: twelve periods of ten seconds, watched with a sample a second.
func example(name, system string) Run {
	r := Run{
		Name: name, Title: "Run <" + name + "> & more", System: system, Warnings: []string{`client "hot" <b>`},
		Settings: []Setting{{Name: "producerRate", Original: "1000000", Effective: "20000"}, {Name: "messageSize", Original: "1024", Effective: "1024"}},
		Figures:  Figures{Format: "test", Workload: "w", MessageBytes: 1024},
	}
	f := &r.Figures
	for i := range 12 {
		base := 100 + 10*math.Sin(float64(i))
		l := Latency{Avg: base, P50: base, P75: base * 1.2, P95: base * 1.5, P99: base * 2, P999: base * 3, P9999: base * 4, Max: base * 5}
		f.Seconds = append(f.Seconds, float64(10*(i+1)))
		f.PublishRate, f.ConsumeRate = append(f.PublishRate, 20000), append(f.ConsumeRate, 19000)
		f.PublishErrorRate, f.Backlog = append(f.PublishErrorRate, 0), append(f.Backlog, 50000)
		f.Publish, f.EndToEnd = append(f.Publish, l), append(f.EndToEnd, l)
	}
	f.PublishTotal, f.EndToEndTotal = f.Publish[0], f.EndToEnd[0]
	agent, store := observe.History{Name: "agent"}, observe.History{Name: "S3 server", Apart: true}
	for i := range 121 {
		at := float64(i)
		agent.Samples = append(agent.Samples, observe.Sample{At: at, CPU: at / 2, ResidentBytes: 300 << 20, Requests: map[string]float64{"put": 4 * at, "get": at}})
		store.Samples = append(store.Samples, observe.Sample{At: at, CPU: at / 4, ResidentBytes: 100 << 20})
	}
	r.Observed = &observe.Series{Start: time.Unix(0, 0), Targets: []observe.History{agent, store}}
	return r
}

const coarse = 36 // DPI: the detector of races makes each pixel dear

func TestWrite_PageStandsForItself(t *testing.T) {
	other := Run{Name: "two", System: "Freshet", Figures: Figures{Seconds: []float64{1}, PublishRate: []float64{1}}}
	dir := filepath.Join(t.TempDir(), "made", "report")
	page := Page{
		Title: "Title", Lead: []string{"a lead"}, Tables: []Table{{Title: "T", Head: []string{"a", "b"}, Rows: [][]string{{"1", "2"}}}},
		Runs: []Run{example("one", "Apache Kafka"), other}, DPI: coarse,
	}
	require.NoError(t, page.Write(dir))
	data, err := os.ReadFile(filepath.Join(dir, IndexFile))
	require.NoError(t, err)
	html := string(data)

	// Nothing is fetched when it is opened: no reference but those within the page.
	require.NotRegexp(t, regexp.MustCompile(`(?i)(src|srcset|href|action|data)\s*=\s*["']?\s*[^#"'\s>]`), html)
	require.NotRegexp(t, regexp.MustCompile(`(?i)url\(|@import|<script|<link|<iframe|<object`), html)
	for _, url := range regexp.MustCompile(`https?://[^\s"'<>]*`).FindAllString(html, -1) {
		require.Contains(t, []string{"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}, url, "names of XML vocabularies only")
	}
	require.Contains(t, html, "Run &lt;one&gt; &amp; more")
	require.Contains(t, html, "client &#34;hot&#34; &lt;b&gt;")
	require.Contains(t, html, `<tr class="changed"><td>producerRate</td><td>1000000</td><td>20000</td></tr>`)
	require.Contains(t, html, `<tr><td>messageSize</td><td>1024</td><td>1024</td></tr>`)

	own := []string{"produce-latency", "end-to-end-latency", "throughput", "backlog", "requests", "cpu", "memory"}
	both := []string{"produce-p50", "produce-p99", "end-to-end-p50", "end-to-end-p99", "in", "cpu"}
	require.Equal(t, len(own)+len(both)+1, strings.Count(html, "<svg"))
	for _, name := range own {
		requirePicture(t, filepath.Join(dir, "one-"+name+".png"), 260)
	}
	for _, name := range both {
		require.FileExists(t, filepath.Join(dir, "versus-"+name+".png"))
	}
}

// requirePicture checks that a chart is a PNG of the width said, in pixels, and not blank.
func requirePicture(t *testing.T, path string, width int) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	picture, err := png.Decode(bytes.NewReader(data))
	require.NoError(t, err)
	require.Equal(t, width, picture.Bounds().Dx())
	colours := map[[3]uint32]bool{}
	step := width / 104
	for x := 0; x < picture.Bounds().Dx(); x += step {
		for y := 0; y < picture.Bounds().Dy(); y += step {
			r, g, b, _ := picture.At(x, y).RGBA()
			colours[[3]uint32{r, g, b}] = true
		}
	}
	require.Greater(t, len(colours), 10, path)
}

func TestChart_NamesLinesAndUnits(t *testing.T) {
	run := example("one", "")
	for _, c := range run.charts() {
		element, err := c.svg()
		require.NoError(t, err)
		require.Contains(t, element, ">"+c.title+"<")
		require.Contains(t, element, ">"+c.unit+"<")
		require.Contains(t, element, ">seconds since the start of the test<")
		for _, l := range c.lines {
			require.Contains(t, element, ">"+l.label+"<")
		}
		decoder := xml.NewDecoder(strings.NewReader(element))
		for err == nil {
			_, err = decoder.Token()
		}
		require.ErrorIs(t, err, io.EOF, "the element is whole")
	}
}

func TestRun_ChartsOnlyWhatWasMeasured(t *testing.T) {
	run := Run{Name: "x", Figures: Figures{Seconds: []float64{1, 2}, PublishRate: []float64{5, 5}, Publish: []Latency{{}, {P50: 1, P99: 2, Max: 3}}}}
	charts := run.charts()
	require.Len(t, charts, 2)
	require.Equal(t, []float64{2}, charts[0].lines[0].x, "a period without measurements is no point at zero")
	require.Equal(t, "messages a second", charts[1].unit, "without a message size there are no bytes")
	dir := t.TempDir()
	require.NoError(t, Write(dir, []Run{run}))
	requirePicture(t, filepath.Join(dir, "x-produce-latency.png"), 1040)
}

func TestRates_AreOfTheCountersAndFew(t *testing.T) {
	run := example("one", "")
	c := run.requests()
	require.Equal(t, "put", c.lines[0].label, "the busiest first")
	require.LessOrEqual(t, len(c.lines[0].x), maxSteps)
	for i := range c.lines[0].y {
		require.InDelta(t, 4, c.lines[0].y[i], 1e-9)
	}
	require.InDelta(t, 120, c.lines[0].x[len(c.lines[0].x)-1], 1e-9)
	cpu := run.cpu()
	require.InDelta(t, 0.5, cpu.lines[0].y[0], 1e-9)
	require.True(t, cpu.lines[1].dash, "what is counted apart looks so")
}

func TestSumUsage_LeavesApartOut(t *testing.T) {
	run := example("one", "")
	used, apart := SumUsage(run.Observed, false), SumUsage(run.Observed, true)
	require.InDelta(t, 60, used.CPU, 1e-9)
	require.InDelta(t, 30, apart.CPU, 1e-9)
	require.EqualValues(t, 300<<20, used.Peak)
	require.Equal(t, map[string]float64{"put": 480, "get": 120}, used.Requests)
	require.Zero(t, SumUsage(nil, false).CPU)
	// 20,000 messages of 1 KiB a second for 120 s are 2.2888 GiB.
	require.Equal(t, "26.2", run.cpuPerGiB())
}

func TestWrite_NamesRunAndField(t *testing.T) {
	good := Figures{Seconds: []float64{1, 2}, PublishRate: []float64{1, 1}}
	for name, c := range map[string]struct {
		page Page
		want string
	}{
		"no name":     {Page{Runs: []Run{{Figures: good}}}, `run "": Name: want letters`},
		"a path":      {Page{Runs: []Run{{Name: "../x"}}}, `run "../x": Name: want letters`},
		"same name":   {Page{Runs: []Run{{Name: "a"}, {Name: "a"}}}, "run a: Name: used twice"},
		"length":      {Page{Runs: []Run{{Name: "a", Figures: Figures{Seconds: []float64{1}, ConsumeRate: []float64{1, 2}}}}}, "run a: ConsumeRate: 2 values for 1 periods"},
		"not finite":  {Page{Runs: []Run{{Name: "a", Figures: Figures{Seconds: []float64{1}, Backlog: []float64{math.NaN()}}}}}, "run a: Backlog[0]: NaN"},
		"latency":     {Page{Runs: []Run{{Name: "a", Figures: Figures{Seconds: []float64{1}, EndToEnd: []Latency{{P99: -1}}}}}}, "run a: EndToEnd.p99[0]: -1"},
		"table cells": {Page{Tables: []Table{{Title: "T", Head: []string{"a"}, Rows: [][]string{{"1", "2"}}}}}, `table "T": Rows[0]: 2 cells for 1 columns`},
	} {
		dir := filepath.Join(t.TempDir(), "report")
		require.ErrorContains(t, c.page.Write(dir), c.want, name)
		_, err := os.Stat(dir)
		require.True(t, errors.Is(err, os.ErrNotExist), "%s: nothing is written", name)
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		high float64
		want string
	}{
		{1, "0 0.2 0.4 0.6 0.8 1"},
		{2.7, "0 0.5 1 1.5 2 2.5"},
		{130, "0 25 50 75 100 125"},
		{25000, "0 5,000 10,000 15,000 20,000 25,000"},
		{0.004, "0 0.001 0.002 0.003 0.004"},
	} {
		var labels []string
		for _, tick := range (ticks{}).Ticks(0, c.high) {
			labels = append(labels, tick.Label)
		}
		require.Equal(t, c.want, strings.Join(labels, " "))
	}
	var labels []string
	for _, tick := range (logTicks{}).Ticks(logFloor(3), logCeil(170)) {
		labels = append(labels, tick.Label)
	}
	require.Equal(t, "2 5 10 20 50 100 200", strings.Join(labels, " "))
	require.Len(t, logTicks{}.Ticks(1, 100_000), 6, "over many decades one each")
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.01234: "0.0123", 1.005: "1", 9.999: "10", 12.345: "12.3", 123.6: "124", 20000: "20,000", 1e-9: "0"} {
		require.Equal(t, want, number(v))
	}
}
