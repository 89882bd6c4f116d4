package latency

import (
	"bytes"
	"fmt"
	"html/template"
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
	_ "gonum.org/v1/plot/vg/vgimg" // draws PNG
	_ "gonum.org/v1/plot/vg/vgsvg" // draws SVG
)

// Size of the chart.
const (
	chartWidth  = 620 * vg.Inch / 72
	chartHeight = 380 * vg.Inch / 72
)

const (
	// legendRoom leaves the top of the chart to the legend.
	legendRoom = 1.4
	// rightMargin is the part of the axis that is added behind the last budget, whose label is centred there.
	rightMargin = 0.08
	// margin is around everything, and legendGap between two lines of the legend: text touches them otherwise.
	margin    = 6
	legendGap = 2
)

// palette is Okabe and Ito's, as of bench/report.
var palette = []color.Color{
	color.RGBA{R: 0x00, G: 0x72, B: 0xB2, A: 0xFF},
	color.RGBA{R: 0xE6, G: 0x9F, B: 0x00, A: 0xFF},
	color.RGBA{R: 0x00, G: 0x9E, B: 0x73, A: 0xFF},
	color.RGBA{R: 0xD5, G: 0x5E, B: 0x00, A: 0xFF},
	color.RGBA{R: 0xCC, G: 0x79, B: 0xA7, A: 0xFF},
	color.RGBA{R: 0x56, G: 0xB4, B: 0xE9, A: 0xFF},
}

// chartFormats are the endings of charts' files, and how they are drawn.
var chartFormats = map[string]string{".svg": "svg", ".png": "png", ".html": "svg"}

func checkChart(file string) error {
	if file != "" && chartFormats[filepath.Ext(file)] == "" {
		return fmt.Errorf("chart %q: want a name that ends in .svg, .png or .html", file)
	}
	return nil
}

var chartPage = template.Must(template.New("page").Parse(
	"<!doctype html>\n<meta charset=\"utf-8\">\n<title>{{.Title}}</title>\n{{.Chart}}\n"))

const chartTitle = "Produce latency by PUT budget"

// writeChart draws produce latency over the budget, a line for each store and load, and a dashed one for its p99.
func writeChart(file string, all []*Figures) error {
	p, err := draw(all)
	if err != nil {
		return fmt.Errorf("draw chart: %w", err)
	}
	format := chartFormats[filepath.Ext(file)]
	picture, err := vgdraw.NewFormattedCanvas(chartWidth, chartHeight, format)
	if err != nil {
		return fmt.Errorf("draw chart: %w", err)
	}
	p.Draw(vgdraw.Crop(vgdraw.New(picture), margin, -margin, margin, -margin))
	var out bytes.Buffer
	if _, err := picture.WriteTo(&out); err != nil {
		return fmt.Errorf("draw chart: %w", err)
	}
	if filepath.Ext(file) == ".html" {
		// What comes before the element belongs to files of their own.
		_, element, _ := strings.Cut(out.String(), "<svg")
		out.Reset()
		if err := chartPage.Execute(&out, map[string]any{
			"Title": chartTitle, "Chart": template.HTML("<svg" + element), // made by the chart library, which escapes labels
		}); err != nil {
			return fmt.Errorf("write chart: %w", err)
		}
	}
	if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write chart: %w", err)
	}
	return nil
}

// sans is for all text. A viewer that lacks the font takes one that may be wider, so text has room where it ends: the legend
// begins in the middle, and beyond the last budget is a margin.
func sans(size vg.Length) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
}

func setFonts(p *plot.Plot) {
	p.Title.TextStyle.Font = sans(11)
	for _, style := range []*text.Style{
		&p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle,
	} {
		style.Font = sans(9)
	}
}

// draw puts one line for p50 and one for p99 for each store and load.
func draw(all []*Figures) (*plot.Plot, error) {
	p := plot.New()
	setFonts(p)
	p.Title.Text = chartTitle
	p.X.Label.Text = "PUT budget a second and zone, USD a month of the PUTs at the highest load"
	p.Y.Label.Text = "milliseconds"
	p.X.Tick.Marker = budgetTicks(all)
	p.Y.Min = 0
	p.Legend.Top, p.Legend.Left, p.Legend.XOffs = true, true, chartWidth/2 // latency falls to the right
	p.Legend.Padding, p.Title.Padding = legendGap, margin
	p.Add(plotter.NewGrid())
	for i, s := range seriesOf(all) {
		for _, q := range []struct {
			name  string
			value func(*Figures) time.Duration
			dash  []vg.Length
		}{
			{"p50", func(f *Figures) time.Duration { return f.Produce.P50 }, nil},
			{"p99", func(f *Figures) time.Duration { return f.Produce.P99 }, []vg.Length{5, 3}},
		} {
			points := make(plotter.XYs, len(s.figures))
			for j, f := range s.figures {
				points[j] = plotter.XY{X: f.Budget, Y: float64(q.value(f).Microseconds()) / 1000}
			}
			line, dots, err := plotter.NewLinePoints(points)
			if err != nil {
				return nil, err
			}
			line.Color, line.Dashes, line.Width = palette[i%len(palette)], q.dash, 1.6
			dots.Color = line.Color
			p.Add(line, dots)
			p.Legend.Add(s.name+", "+q.name, line)
		}
	}
	p.Y.Max *= legendRoom
	p.X.Max += (p.X.Max - p.X.Min) * rightMargin
	return p, nil
}

// series is what is joined by a line.
type series struct {
	name    string
	figures []*Figures // by budget
}

func seriesOf(all []*Figures) (list []series) {
	for _, f := range all {
		name := f.Model + ", " + f.load()
		i := slices.IndexFunc(list, func(s series) bool { return s.name == name })
		if i < 0 {
			i, list = len(list), append(list, series{name: name})
		}
		list[i].figures = append(list[i].figures, f)
	}
	for _, s := range list {
		slices.SortFunc(s.figures, func(a, b *Figures) int { return int(a.Budget - b.Budget) })
	}
	return list
}

// budgetTicks are at the budgets that were measured, with what their PUTs cost.
func budgetTicks(all []*Figures) plot.ConstantTicks {
	most := map[float64]float64{}
	for _, f := range all {
		most[f.Budget] = max(most[f.Budget], f.USDPuts)
	}
	var ticks plot.ConstantTicks
	for budget, usd := range most {
		ticks = append(ticks, plot.Tick{Value: budget, Label: fmt.Sprintf("%g/s\n%.0f USD", budget, usd)})
	}
	slices.SortFunc(ticks, func(a, b plot.Tick) int { return int(a.Value - b.Value) })
	return ticks
}
