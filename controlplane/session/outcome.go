package session

import (
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

// outcome is what became of each run of a resubmission so far: Gap until proposing gave a final answer. A run of a
// resubmission is one batch, since only idempotent ones are resubmitted. The zero value has every run open.
type outcome struct {
	spans []commit.Span // one per run in the commit's order; nil: all Gap
}

// walk goes through the runs with what became of them.
func (o *outcome) walk(r *commit.Reader, visit func(tp id.TopicPartition, run *commit.Run, was commit.Outcome)) {
	r.Rewind()
	var section commit.SectionRuns
	var run commit.Run
	for i := 0; r.NextSection(&section); {
		for ; r.NextRun(&run); i++ {
			was := commit.Gap
			if o.spans != nil {
				was = o.spans[i].Outcome
			}
			visit(section.Partition, &run, was)
		}
	}
}

// open counts the runs without a final answer.
func (o *outcome) open(r *commit.Reader) int {
	n := 0
	o.walk(r, func(_ id.TopicPartition, _ *commit.Run, was commit.Outcome) {
		if was == commit.Gap {
			n++
		}
	})
	return n
}

// merge takes the result of proposing: runs that were open get what it says of them. Those that had an answer keep
// it, since the log has called them Duplicate this time.
func (o *outcome) merge(r *commit.Reader, result *commit.Result) {
	if o.spans == nil {
		o.spans = make([]commit.Span, 0, r.Runs())
		o.walkAll(r, func(run *commit.Run) {
			o.spans = append(o.spans, commit.Span{Batches: run.Batches, Outcome: commit.Gap, Base: -1})
		})
	}
	i := 0
	r.Rewind()
	var section commit.SectionRuns
	var run commit.Run
	for s := 0; r.NextSection(&section) && s < len(result.Sections); s++ {
		spans := spanReader{spans: result.Sections[s].Spans}
		for ; r.NextRun(&run); i++ {
			if next := spans.next(&run); o.spans[i].Outcome == commit.Gap {
				o.spans[i] = next
			}
		}
	}
}

func (o *outcome) walkAll(r *commit.Reader, visit func(run *commit.Run)) {
	r.Rewind()
	var section commit.SectionRuns
	var run commit.Run
	for r.NextSection(&section) {
		for r.NextRun(&run) {
			visit(&run)
		}
	}
}

// spanReader cuts a section's spans into one per run.
type spanReader struct {
	spans []commit.Span
	used  uint32 // batches of the first span given
	past  int64  // records of the first span given
}

func (sr *spanReader) next(run *commit.Run) commit.Span {
	if len(sr.spans) == 0 { // a result that does not fit its commit: nothing is known
		return commit.Span{Batches: run.Batches, Outcome: commit.Gap, Base: -1}
	}
	span := commit.Span{Batches: run.Batches, Outcome: sr.spans[0].Outcome, Base: sr.spans[0].Base}
	if span.Base >= 0 {
		span.Base += sr.past
	}
	sr.used += run.Batches
	sr.past += run.Records
	if sr.used >= sr.spans[0].Batches {
		sr.spans, sr.used, sr.past = sr.spans[1:], 0, 0
	}
	return span
}

// result gives the whole as the answer to the commit, one span per run.
func (o *outcome) result(r *commit.Reader, logStarts map[id.TopicPartition]int64) *commit.Result {
	result := &commit.Result{Sections: make([]commit.SectionResult, 0, r.Sections())}
	r.Rewind()
	var section commit.SectionRuns
	var run commit.Run
	for i := 0; r.NextSection(&section); {
		sr := commit.SectionResult{LogStart: logStarts[section.Partition]}
		for ; r.NextRun(&run); i++ {
			span := commit.Span{Batches: run.Batches, Outcome: commit.Gap, Base: -1}
			if o.spans != nil {
				span = o.spans[i]
			}
			sr.Spans = append(sr.Spans, span)
		}
		result.Sections = append(result.Sections, sr)
	}
	return result
}
