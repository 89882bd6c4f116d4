package report

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
)

// IndexFile is the name of the page in a report's directory.
const IndexFile = "index.html"

// Page is what a report shows, from top to bottom. Only Runs is needed.
type Page struct {
	Title  string
	Lead   []string // paragraphs
	Tables []Table
	Runs   []Run
	DPI    int // of the pictures; default 144
}

// Table is a table as it is shown.
type Table struct {
	Title string
	Head  []string
	Rows  [][]string // each as long as Head
}

// Write writes the runs as index.html with their charts as PNG files into dir, which it makes if needed. Its errors name
// the run and the field that cannot be shown.
func Write(dir string, runs []Run) error {
	return Page{Title: "Benchmark report", Runs: runs}.Write(dir)
}

// Write is as the function Write.
func (p Page) Write(dir string) error {
	if err := p.validate(); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("report: make directory: %w", err)
	}
	v, err := p.view(dir)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	var out bytes.Buffer
	if err := pageTemplate.Execute(&out, v); err != nil {
		return fmt.Errorf("report: fill in page: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, IndexFile), out.Bytes(), 0o644); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

func (p Page) validate() error {
	var faults []error
	names := map[string]bool{}
	for i := range p.Runs {
		r := &p.Runs[i]
		faults = append(faults, r.validate())
		if names[r.Name] {
			faults = append(faults, fmt.Errorf("run %s: Name: used twice", r.Name))
		}
		names[r.Name] = true
	}
	for _, t := range p.Tables {
		for i, row := range t.Rows {
			if len(row) != len(t.Head) {
				faults = append(faults, fmt.Errorf("table %q: Rows[%d]: %d cells for %d columns", t.Title, i, len(row), len(t.Head)))
			}
		}
	}
	return errors.Join(faults...)
}

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// pageView and runView are what the template shows.
type pageView struct {
	Page
	Overview Table
	Versus   []template.HTML
	Views    []runView
}

type runView struct {
	Run
	Heading     string
	AllWarnings []string
	Charts      []template.HTML
	Summary     Table
}

// view draws the charts, once into the page and once into files.
func (p Page) view(dir string) (pageView, error) {
	dpi := cmp.Or(p.DPI, pngDPI)
	v := pageView{Page: p, Overview: overview(p.Runs)}
	var err error
	if v.Versus, err = drawAll(filepath.Join(dir, "versus"), versus(p.Runs), dpi); err != nil {
		return v, err
	}
	for i := range p.Runs {
		r := &p.Runs[i]
		rv := runView{Run: *r, Heading: r.title(), AllWarnings: r.AllWarnings(), Summary: r.summary()}
		if rv.Charts, err = drawAll(filepath.Join(dir, r.Name), r.charts(), dpi); err != nil {
			return v, fmt.Errorf("run %s: %w", r.Name, err)
		}
		v.Views = append(v.Views, rv)
	}
	return v, nil
}

// drawAll draws charts into files whose paths begin with prefix, and as elements of the page.
func drawAll(prefix string, charts []chart, dpi int) (elements []template.HTML, err error) {
	for _, c := range charts {
		element, err := c.write(prefix+"-"+c.name+".png", dpi)
		if err != nil {
			return nil, err
		}
		elements = append(elements, element)
	}
	return elements, nil
}

// write writes the chart as a picture and gives it as an element of the page.
func (c *chart) write(path string, dpi int) (template.HTML, error) {
	picture, err := c.png(dpi)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(path, picture, 0o644); err != nil {
		return "", fmt.Errorf("write chart: %w", err)
	}
	element, err := c.svg()
	return template.HTML(element), err // made by the chart library, which escapes labels
}
