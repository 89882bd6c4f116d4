package cli

import (
	"context"
	"fmt"
	"text/tabwriter"
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
func ListJobs(ctx context.Context, c OperatorConfig, s Streams) error {
	return listing(ctx, c, "/jobs", "jobs", "JOB\tSTATE\tKIND\tLEVEL\tRUNNER\tZONE\tAGE\tINPUTS\tBYTES\tDONE\tPARTITIONS\tREASON", "no job is open or ended recently",
		func(w *tabwriter.Writer, j *job) {
			fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%d\t%s\t%s\t%d\t%d\t%d\t%s\t%s\n", j.ID, j.State, j.Kind, j.Level, j.Runner, j.Zone,
				secondsText(j.Age), j.Inputs, j.InputBytes, j.BytesDone, j.partitions(), j.Reason)
		}, s)
}

// partitions is the range that a job touches.
func (j *job) partitions() string {
	if j.First == j.Last {
		return j.First
	}
	return j.First + " to " + j.Last
}
