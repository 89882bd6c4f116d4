package report

import (
	"bytes"
	"fmt"
	"image/color"
	"math"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Size of a chart, in points, and of its PNG form if nobody asks for another.
const (
	chartWidth  vg.Length = 520
	chartHeight vg.Length = 270
	pngDPI                = 144
)

// palette is Okabe and Ito's, which people with the usual colour deficiencies tell apart ("Color Universal Design", 2008),
// without its yellow, which is too light on white. A chart has at most as many lines.
var palette = []color.Color{
	color.RGBA{R: 0x00, G: 0x72, B: 0xB2, A: 0xFF}, // blue
	color.RGBA{R: 0xE6, G: 0x9F, B: 0x00, A: 0xFF}, // orange
	color.RGBA{R: 0x00, G: 0x9E, B: 0x73, A: 0xFF}, // green
	color.RGBA{R: 0xD5, G: 0x5E, B: 0x00, A: 0xFF}, // vermillion
	color.RGBA{R: 0xCC, G: 0x79, B: 0xA7, A: 0xFF}, // purple
	color.RGBA{R: 0x56, G: 0xB4, B: 0xE9, A: 0xFF}, // sky blue
}

var (
	ink  = color.Gray{Y: 0x33}
	rule = color.Gray{Y: 0xDD}
)

// chart is lines over time.
type chart struct {
	name  string // part of the file's name
	title string
	unit  string // of the vertical axis
	log   bool   // vertical axis, where all values are positive and span much
	lines []line
}

// line is one series of a chart. Lines of the same label are shown alike and named once.
type line struct {
	label string
	color int // index into palette
	dash  bool
	x, y  []float64 // seconds, values
}

func (c *chart) empty() bool {
	for _, l := range c.lines {
		if len(l.x) > 0 {
			return false
		}
	}
	return true
}

// svg gives the chart as an <svg> element for a page.
func (c *chart) svg() (string, error) {
	canvas := vgsvg.New(chartWidth, chartHeight)
	if err := c.draw(draw.New(canvas)); err != nil {
		return "", err
	}
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return "", fmt.Errorf("draw %s: %w", c.title, err)
	}
	// What comes before the element belongs to files of their own.
	_, element, _ := bytes.Cut(out.Bytes(), []byte("<svg"))
	return "<svg" + string(element), nil
}

// png gives the chart as a picture.
func (c *chart) png(dpi int) ([]byte, error) {
	canvas := vgimg.NewWith(vgimg.UseWH(chartWidth, chartHeight), vgimg.UseDPI(dpi))
	if err := c.draw(draw.New(canvas)); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if _, err := (vgimg.PngCanvas{Canvas: canvas}).WriteTo(&out); err != nil {
		return nil, fmt.Errorf("draw %s: %w", c.title, err)
	}
	return out.Bytes(), nil
}

// draw puts the title and the legend above the plot, where they cover no line.
func (c *chart) draw(canvas draw.Canvas) error {
	p := plot.New()
	p.BackgroundColor = nil // the whole canvas gets one
	c.axes(p)
	p.Add(grid())
	for _, l := range c.lines {
		if err := c.add(p, l); err != nil {
			return fmt.Errorf("draw %s: %w", c.title, err)
		}
	}
	c.fit(p)
	canvas.SetColor(color.White)
	canvas.Fill(canvas.Rectangle.Path())
	canvas = draw.Crop(canvas, 8, -12, 8, -8)
	canvas.FillText(style(12, true), vg.Point{X: canvas.Min.X, Y: canvas.Max.Y - 12}, c.title)
	c.legend(canvas, canvas.Max.Y-28)
	p.Draw(draw.Crop(canvas, 0, 0, 0, -40))
	return nil
}

func (c *chart) add(p *plot.Plot, l line) error {
	points := make(plotter.XYs, len(l.x))
	scale := c.timeScale()
	for i := range l.x {
		points[i] = plotter.XY{X: l.x[i] / scale, Y: l.y[i]}
	}
	if len(points) == 0 {
		return nil
	}
	drawn, err := plotter.NewLine(points)
	if err != nil {
		return err
	}
	drawn.LineStyle = l.style()
	p.Add(drawn)
	if len(points) == 1 {
		dot, err := plotter.NewScatter(points)
		if err != nil {
			return err
		}
		dot.GlyphStyle = draw.GlyphStyle{Color: l.style().Color, Radius: 2.5, Shape: draw.CircleGlyph{}}
		p.Add(dot)
	}
	return nil
}

func (l *line) style() draw.LineStyle {
	s := draw.LineStyle{Color: palette[l.color%len(palette)], Width: 1.6}
	if l.dash {
		s.Dashes = []vg.Length{5, 3}
	}
	return s
}

// legend names the lines in one row.
func (c *chart) legend(canvas draw.Canvas, y vg.Length) {
	labels, x, seen := style(10, false), canvas.Min.X, map[string]bool{}
	for _, l := range c.lines {
		if seen[l.label] || len(l.x) == 0 {
			continue
		}
		seen[l.label] = true
		thick := l.style()
		thick.Width = 2.4
		canvas.StrokeLine2(thick, x, y+3.5, x+18, y+3.5)
		canvas.FillText(labels, vg.Point{X: x + 23, Y: y}, l.label)
		x += 23 + labels.Width(l.label) + 16
	}
}

func (c *chart) axes(p *plot.Plot) {
	p.X.Label.Text, p.Y.Label.Text = "seconds since the start of the test", c.unit
	if c.timeScale() > 1 {
		p.X.Label.Text = "minutes since the start of the test"
	}
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.LineStyle = draw.LineStyle{Color: ink, Width: 0.6}
		axis.Tick.LineStyle = axis.LineStyle
		axis.Tick.Length = 4
		axis.Padding = 0
		axis.Label.Padding = 4
		axis.Label.TextStyle.Font, axis.Label.TextStyle.Color = sans(10, false), ink
		axis.Tick.Label.Font, axis.Tick.Label.Color = sans(9, false), ink
		axis.Tick.Marker = ticks{}
	}
	if c.log {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, logTicks{}
	}
}

// fit sets the ends of the axes: time from the start, values from nothing, or on a logarithmic axis from the decade below.
func (c *chart) fit(p *plot.Plot) {
	p.X.Min = 0
	if p.X.Max <= 0 {
		p.X.Max = 1
	}
	if !c.log {
		p.Y.Min = 0
		if p.Y.Max <= 0 {
			p.Y.Max = 1
		}
		p.Y.Max *= 1.08
		return
	}
	p.Y.Min, p.Y.Max = logFloor(p.Y.Min), logCeil(p.Y.Max)
}

// timeScale is how many seconds a unit of the time axis has.
func (c *chart) timeScale() float64 {
	var last float64
	for _, l := range c.lines {
		if len(l.x) > 0 {
			last = max(last, l.x[len(l.x)-1])
		}
	}
	if last > 600 {
		return 60
	}
	return 1
}

// wide tells whether values are all positive and span more than a decade and a half: small ones would lie on the axis.
func wide(lines []line) bool {
	low, high := math.Inf(1), 0.0
	for _, l := range lines {
		for _, v := range l.y {
			low, high = min(low, v), max(high, v)
		}
	}
	return low > 0 && high/low > 30
}

func grid() *plotter.Grid {
	g := plotter.NewGrid()
	g.Horizontal = draw.LineStyle{Color: rule, Width: 0.5}
	g.Vertical = g.Horizontal
	return g
}

func sans(size vg.Length, bold bool) font.Font {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	if bold {
		f.Weight = xfont.WeightBold
	}
	return f
}

func style(size vg.Length, bold bool) text.Style {
	return text.Style{Color: ink, Font: sans(size, bold), Handler: plot.DefaultTextHandler}
}
