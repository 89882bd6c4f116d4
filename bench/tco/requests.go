package tco

import "math"

// wholeBundle is the largest bundle that one GET fetches; cacheUnit is what larger objects are fetched in. rangesOfObject
// is how many jobs read a range of what one of the level before wrote, by a GET each: so many at 288 partitions
// (bench/results/2026-11-22-requests.md).
const (
	wholeBundle    = 16 << 20
	cacheUnit      = 4 << 20
	rangesOfObject = 2
)

// rates are requests and bytes a second, as means over the day.
type rates struct {
	wire       float64 // bytes of batches as clients send them
	puts, gets float64 // of bundles, without hedges
}

// rates sums the day up.
func (s *sizer) rates(phases []Phase) (rates, error) {
	var r rates
	var hours float64
	for _, p := range phases {
		mean, peak := p.Mean/s.w.CompressionRatio, p.Peak/s.w.CompressionRatio
		n, _, err := s.agents(peak)
		if err != nil {
			return rates{}, err
		}
		puts := float64(s.w.Zones) * s.zonePuts(mean, n)
		r.wire += mean * p.Hours
		r.puts += puts * p.Hours
		r.gets += puts * s.getsPerPut(n) * p.Hours
		hours += p.Hours
	}
	r.wire, r.puts, r.gets = r.wire/hours, r.puts/hours, r.gets/hours
	return r, nil
}

// zonePuts is PUTs a second of a zone: bundles are sealed when full, by the zone's budget, and by each writer when the
// flush interval is over, whichever makes more.
func (s *sizer) zonePuts(wire float64, n int) float64 {
	full := wire / float64(s.w.Zones) / float64(s.w.BundleBytes)
	return max(full, s.w.PutBudget, s.writers(wire, n)/s.w.FlushInterval.Seconds())
}

// getsPerPut is how often a bundle is read from the store at the live edge: once in every foreign zone, or by every
// agent but its writer.
func (s *sizer) getsPerPut(n int) float64 {
	switch {
	case s.w.Fanout <= 0:
		return 0
	case s.w.Sharing == ShareAgent:
		return float64(n*s.w.Zones-1) * unitsOf(s.w.BundleBytes)
	default:
		return float64(s.w.Zones-1) * unitsOf(s.w.BundleBytes)
	}
}

// partShare is the share of an agent's memory that a part of an upload may take, which bounds it on small machines.
const partShare = 0.03 * 0.4

// partBytes is the size of a part.
func (s *sizer) partBytes() float64 {
	return min(float64(s.w.PartBytes), float64(s.instance.MemoryGiB)*(1<<30)*partShare)
}

// partsOfObject is the PUTs that one object of compaction takes.
func (s *sizer) partsOfObject() float64 {
	parts := math.Ceil(float64(s.w.ObjectBytes) / s.partBytes())
	if parts > 1 {
		parts += 2 // CreateMultipartUpload and CompleteMultipartUpload are charged as PUTs
	}
	return parts
}

func unitsOf(bytes int64) float64 {
	if bytes <= wholeBundle {
		return 1
	}
	return math.Ceil(float64(bytes) / cacheUnit)
}
