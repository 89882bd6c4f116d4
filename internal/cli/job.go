package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"text/tabwriter"
	"time"
)

// job is a background job as the control plane tells it.
type job struct {
	ID         uint32  `json:"id"`
	State      string  `json:"state"`
	Kind       string  `json:"kind"`
	Level      int     `json:"level"`
	Runner     uint32  `json:"runner"`
	Zone       string  `json:"zone"`
	First      string  `json:"first_partition"`
	Last       string  `json:"last_partition"`
	Inputs     int     `json:"inputs"`
	InputBytes int64   `json:"input_bytes"`
	BytesDone  int64   `json:"bytes_done"`
	Age        float64 `json:"age_seconds"`
	Reason     string  `json:"reason"`
}

// ListJobs writes the background jobs that are open or ended of late, as a table or as the control plane's JSON.
func ListJobs(ctx context.Context, c OperatorConfig, asJSON bool, s Streams) error {
	if err := c.complete(); err != nil {
		return err
	}
	var answer struct {
		Jobs []json.RawMessage `json:"jobs"`
	}
	if err := c.ask(ctx, http.MethodGet, "/jobs", &answer); err != nil {
		return err
	}
	if asJSON {
		out := json.NewEncoder(s.Out)
		out.SetIndent("", "  ")
		return out.Encode(answer.Jobs)
	}
	w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "JOB\tSTATE\tKIND\tLEVEL\tRUNNER\tZONE\tAGE\tINPUTS\tBYTES\tDONE\tPARTITIONS\tREASON")
	for _, raw := range answer.Jobs {
		var j job
		if err := json.Unmarshal(raw, &j); err != nil {
			return fmt.Errorf("a job in the answer: %w", err)
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%d\t%s\t%v\t%d\t%d\t%d\t%s\t%s\n", j.ID, j.State, j.Kind, j.Level, j.Runner, j.Zone,
			time.Duration(j.Age*float64(time.Second)).Round(time.Second), j.Inputs, j.InputBytes, j.BytesDone, j.partitions(), j.Reason)
	}
	return w.Flush()
}

// partitions is the range that a job touches.
func (j *job) partitions() string {
	if j.First == j.Last {
		return j.First
	}
	return j.First + " to " + j.Last
}
