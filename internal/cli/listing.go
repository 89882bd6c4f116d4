package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"text/tabwriter"
)

// listing asks the control plane for a list, which is the answer's field name, and writes the list: as a table of one row for
// each item, or as the control plane's JSON. If the table is empty, empty follows on standard error.
func listing[T any](ctx context.Context, c OperatorConfig, path, name, header, empty string,
	row func(*tabwriter.Writer, *T), s Streams,
) error {
	if err := c.complete(); err != nil {
		return err
	}
	var answer map[string]json.RawMessage
	if err := c.ask(ctx, http.MethodGet, path, &answer); err != nil {
		return err
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(answer[name], &raw); err != nil {
		return fmt.Errorf("%s in the answer: %w", name, err)
	}
	if s.json() {
		return s.WriteJSON(raw)
	}
	w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, header)
	for _, r := range raw {
		var item T
		if err := json.Unmarshal(r, &item); err != nil {
			return fmt.Errorf("%s in the answer: %w", name, err)
		}
		row(w, &item)
	}
	if err := w.Flush(); err != nil || len(raw) > 0 {
		return err
	}
	_, err := fmt.Fprintln(s.Err, "freshet: "+empty)
	return err
}
