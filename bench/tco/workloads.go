package tco

import "time"

const mib = 1 << 20

// SameWorkloads are those behind the published bills, as Freshet is set up for them.
func SameWorkloads() []Workload {
	all := []Workload{
		{
			// 1,000,000 messages of 1,024 B; 490 MiB/s of them crossed the wire after lz4.
			Name: "WarpStream's 1 GiB/s", Throughput: 1_024_000_000, CompressionRatio: 1_024_000_000.0 / (490 * mib),
			Retention: 7 * 24 * time.Hour, BatchBytes: 50_000, Setup: Setup{Shape: "A"},
		},
		{Name: "AutoMQ's elastic day", Phases: elasticDay(), Retention: 24 * time.Hour, BatchBytes: 65_536, Setup: Setup{Shape: "A"}},
		{Name: "AutoMQ's on Azure, in us-east-1", Throughput: 16_640 * 65_536, Retention: 7 * 24 * time.Hour, BatchBytes: 65_536, Setup: Setup{Shape: "A"}},
	}
	for i := range all {
		all[i].ApplyDefaults()
	}
	return all
}

// rampSteps is into how many phases of equal length each half hour of the elastic day is cut.
const rampSteps = 6

// elasticDay is the rate curve of AutoMQ's white paper: 40 MiB/s, rising over half an hour to 800 at 04:30 and to 1,200
// at 10:30, and falling as fast.
func elasticDay() []Phase {
	const base = 40.0 * mib
	phases := []Phase{{Hours: 22, Mean: base, Peak: base}}
	for _, top := range []float64{800 * mib, 1200 * mib} {
		for i := range rampSteps {
			step := (top - base) / rampSteps
			low := base + float64(i)*step
			up := Phase{Hours: 0.5 / rampSteps, Mean: low + step/2, Peak: low + step}
			phases = append(phases, up, up) // once on the way up, once on the way down
		}
	}
	return phases
}
