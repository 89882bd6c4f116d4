package tco

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
)

// exactPlaces is to how many decimal places JSON and CSV give what is computed: micro-dollars.
const exactPlaces = 6

// jsonLine is a line as JSON has it; figures are strings, so that no reader makes floats of money by itself.
type jsonLine struct {
	Line       string  `json:"line"`
	Unit       string  `json:"unit"`
	Computed   string  `json:"computed"`
	Published  *string `json:"published,omitempty"`
	Difference *string `json:"difference,omitempty"`
	Verdict    Verdict `json:"verdict,omitempty"`
	Formula    string  `json:"formula"`
	Note       string  `json:"note,omitempty"`
}

type jsonTable struct {
	ID     string     `json:"table"`
	Title  string     `json:"title"`
	Source string     `json:"source,omitempty"`
	Prices string     `json:"prices"`
	Lines  []jsonLine `json:"lines"`
	Notes  []string   `json:"notes,omitempty"`
}

func (l Line) json() jsonLine {
	j := jsonLine{
		Line: l.Name, Unit: l.Unit, Computed: l.Computed.Round(exactPlaces).String(),
		Verdict: l.Verdict(), Formula: l.Formula, Note: l.Note,
	}
	if l.Published.Valid {
		published, difference := l.Published.Decimal.String(), l.Difference().String()
		j.Published, j.Difference = &published, &difference
	}
	return j
}

// WriteJSON writes tables as one indented array.
func WriteJSON(w io.Writer, tables []Table) error {
	out := make([]jsonTable, len(tables))
	for i, t := range tables {
		out[i] = jsonTable{ID: t.ID, Title: t.Title, Source: t.Source, Prices: t.Prices, Notes: t.Notes}
		for _, l := range t.Lines {
			out[i].Lines = append(out[i].Lines, l.json())
		}
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(out); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// WriteCSV writes all lines of tables under one header.
func WriteCSV(w io.Writer, tables []Table) error {
	c := csv.NewWriter(w)
	records := [][]string{{"table", "line", "unit", "computed", "published", "difference", "verdict", "formula", "note"}}
	for _, t := range tables {
		for _, l := range t.Lines {
			j := l.json()
			records = append(records, []string{
				t.ID, j.Line, j.Unit, j.Computed, orEmpty(j.Published), orEmpty(j.Difference), string(j.Verdict), j.Formula, j.Note,
			})
		}
	}
	if err := c.WriteAll(records); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	return nil
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
