package latency

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/freshet-io/freshet/objstore"
)

// quantile99 is the 99th percentile of the standard normal distribution.
const quantile99 = 2.3263478740408408

// Point is the latency of one operation at one object size: half of the requests take at most P50, 99 % at most P99.
type Point struct {
	Size     int64 // bytes; must be positive
	P50, P99 time.Duration
}

// Model is the latency of a store. Between points, both percentiles are interpolated along the logarithms of size
// and time; beyond the first and the last they stay as there.
type Model struct {
	Put []Point // by object or part size, ascending; also of delete and of beginning and ending an upload
	Get []Point // time to the first byte, by bytes asked for; also of head, list and now
	// BytesPerSecond is the rate at which one get's body arrives after its first byte, and at which a part of an upload goes
	// beyond its first 8 MiB; 0 is unbounded. A put's time includes its transfer.
	BytesPerSecond int64
}

const (
	kib = 1 << 10
	mib = 1 << 20
)

// partAsPut is how much of a part takes no longer than a put of so much.
const partAsPut = 8 * mib

// presets are the models that have names. They are the numbers that Freshet's latency targets are stated against.
var presets = map[string]Model{
	"s3-standard": {
		Put: []Point{
			{64 * kib, 60 * time.Millisecond, 200 * time.Millisecond},
			{8 * mib, 130 * time.Millisecond, 350 * time.Millisecond},
		},
		Get:            []Point{{1, 30 * time.Millisecond, 150 * time.Millisecond}},
		BytesPerSecond: 90 * mib,
	},
	"s3-express": {
		Put:            []Point{{1, 8 * time.Millisecond, 20 * time.Millisecond}},
		Get:            []Point{{1, 5 * time.Millisecond, 15 * time.Millisecond}},
		BytesPerSecond: 250 * mib,
	},
}

// Preset gives the model of that name: "s3-standard" or "s3-express".
func Preset(name string) (Model, error) {
	m, ok := presets[name]
	if !ok {
		return Model{}, fmt.Errorf("no latency model is called %q; there are s3-standard and s3-express", name)
	}
	return m, nil
}

// sample gives the duration of one request, z being a standard normal sample.
func (m *Model) sample(op objstore.Op, size int64, z float64) time.Duration {
	points := m.Get
	if op.Writes() {
		points = m.Put
	}
	if len(points) == 0 {
		return 0
	}
	p50, p99 := interpolate(points, size)
	sigma := math.Log(p99/p50) / quantile99
	took := time.Duration(p50 * math.Exp(sigma*z))
	if op == objstore.OpPutPart && size > partAsPut && m.BytesPerSecond > 0 {
		took += time.Duration(float64(size-partAsPut) / float64(m.BytesPerSecond) * float64(time.Second))
	}
	return took
}

// interpolate gives the percentiles at a size, in nanoseconds.
func interpolate(points []Point, size int64) (p50, p99 float64) {
	i, exact := slices.BinarySearchFunc(points, size, func(p Point, size int64) int {
		return int(max(-1, min(1, p.Size-size)))
	})
	switch {
	case exact || i == 0:
		return float64(points[i].P50), float64(points[i].P99)
	case i == len(points):
		return float64(points[i-1].P50), float64(points[i-1].P99)
	}
	a, b := points[i-1], points[i]
	part := math.Log(float64(size)/float64(a.Size)) / math.Log(float64(b.Size)/float64(a.Size))
	between := func(from, to time.Duration) float64 {
		return float64(from) * math.Pow(float64(to)/float64(from), part)
	}
	return between(a.P50, b.P50), between(a.P99, b.P99)
}
