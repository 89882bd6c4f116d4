package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"text/tabwriter"
)

// listing asks the control plane for a list, the answer's field name, and writes it: as a table of one row for each item,
// or as JSON as it came.
func listing[T any](ctx context.Context, c OperatorConfig, path, name string, asJSON bool, header string,
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
	if asJSON {
		out := json.NewEncoder(s.Out)
		out.SetIndent("", "  ")
		return out.Encode(raw)
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
	return w.Flush()
}
