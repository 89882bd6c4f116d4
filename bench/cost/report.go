package cost

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// report is what one shape's run found.
type report struct {
	shape        Shape
	cfg          Config
	produce      []pair
	fetch        []pair
	afterProduce NullS3Counts // of the agent's endpoint
	afterFetch   NullS3Counts
	memory       int64  // the agent's peak resident bytes, over the whole run
	steady       steady // the paced load's own figures
}

// steady is what was reached while memory was measured.
type steady struct{ in, out Sample }

func (r report) print(w io.Writer) {
	fmt.Fprintf(w, "\nshape %s: %s\n", r.shape.Name, r.shape.What)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "direction\tround\tfloor CPU-s/GiB\tagent CPU-s/GiB\tratio\tfloor MiB/s\tagent MiB/s\t")
	printPairs(t, "produce", r.produce)
	printPairs(t, "fetch", r.fetch)
	t.Flush()
	var wire int64
	for _, p := range r.produce {
		wire += p.agent.Wire
	}
	fmt.Fprintf(w, "PUTs of the produce rounds: %d for %.2f GiB; GETs of the fetch rounds: %d\n",
		r.afterProduce.Puts, float64(wire)/(1<<30), r.afterFetch.Gets-r.afterProduce.Gets)
	fmt.Fprintf(w, "peak memory %.0f MiB; steady load %.0f MiB/s in, %.0f MiB/s out\n",
		mib(float64(r.memory)), mib(r.steady.in.Rate), mib(r.steady.out.Rate))
	if r.shape.Name == "A" {
		fmt.Fprintf(w, "produce_cpu_ratio %.2f\nfetch_cpu_ratio %.2f\n", medianRatio(r.produce), medianRatio(r.fetch))
	}
}

func printPairs(w io.Writer, direction string, pairs []pair) {
	for i, p := range pairs {
		fmt.Fprintf(w, "%s\t%d\t%.3f\t%.3f\t%.2f\t%.0f\t%.0f\t\n", direction, i+1,
			p.floor.PerGiB(), p.agent.PerGiB(), p.ratio(), mib(p.floor.Rate), mib(p.agent.Rate))
	}
	fmt.Fprintf(w, "%s\tmedian\t\t\t%.2f\t\t\t\n", direction, medianRatio(pairs))
}

func medianRatio(pairs []pair) float64 {
	ratios := make([]float64, len(pairs))
	for i, p := range pairs {
		ratios[i] = p.ratio()
	}
	slices.Sort(ratios)
	n := len(ratios)
	return (ratios[(n-1)/2] + ratios[n/2]) / 2
}

func mib(bytes float64) float64 { return bytes / (1 << 20) }
