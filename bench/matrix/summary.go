package matrix

import (
	"encoding/json"
	"fmt"

	"github.com/freshet-io/freshet/bench/report"
	"github.com/freshet-io/freshet/bench/workloads"
)

// Summary is what Config.JSON gets for each workload.
type Summary struct {
	Workload string              `json:"workload"`
	Source   string              `json:"source"`
	Error    string              `json:"error,omitempty"`
	Warnings []string            `json:"warnings,omitempty"`
	Seconds  float64             `json:"seconds"`          // all in all
	Result   string              `json:"result,omitempty"` // path of the result file
	Settings []workloads.Setting `json:"settings"`
	Figures  *Figures            `json:"figures,omitempty"`
}

// Figures are the result over the whole test. Latencies are milliseconds.
type Figures struct {
	PublishRate  float64 `json:"publish_rate"` // messages a second
	ConsumeRate  float64 `json:"consume_rate"` // by all subscriptions
	MessageBytes float64 `json:"message_bytes"`
	PublishP50   float64 `json:"publish_p50"`
	PublishP99   float64 `json:"publish_p99"`
	EndToEndP50  float64 `json:"end_to_end_p50"`
	EndToEndP99  float64 `json:"end_to_end_p99"`
}

func newFigures(f *report.Figures) *Figures {
	return &Figures{
		PublishRate: f.MeanPublishRate(), ConsumeRate: f.MeanConsumeRate(), MessageBytes: f.MessageBytes,
		PublishP50: f.PublishTotal.P50, PublishP99: f.PublishTotal.P99,
		EndToEndP50: f.EndToEndTotal.P50, EndToEndP99: f.EndToEndTotal.P99,
	}
}

func (f *Figures) String() string {
	if f == nil {
		return "no figures"
	}
	return fmt.Sprintf("%9.1f msg/s in %9.1f out, produce p50 %.1f p99 %.1f ms, end to end p50 %.1f p99 %.1f ms",
		f.PublishRate, f.ConsumeRate, f.PublishP50, f.PublishP99, f.EndToEndP50, f.EndToEndP99)
}

// summarize writes the summaries.
func (m *matrix) summarize() error {
	if m.cfg.JSON == nil {
		return nil
	}
	all := make([]Summary, len(m.outcomes))
	for i, o := range m.outcomes {
		all[i] = Summary{
			Workload: o.entry.Name, Source: o.entry.Source(), Warnings: o.warnings(), Seconds: o.took.Seconds(),
			Result: o.result, Figures: o.figures, Settings: []workloads.Setting{},
		}
		if o.err != nil {
			all[i].Error = o.err.Error()
		}
		for _, s := range o.notes.Settings {
			all[i].Settings = append(all[i].Settings, workloads.Setting(s))
		}
	}
	e := json.NewEncoder(m.cfg.JSON)
	e.SetIndent("", "  ")
	if err := e.Encode(all); err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	return nil
}
