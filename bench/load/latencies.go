package load

import (
	"errors"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The ranges are the OpenMessaging Benchmark's; longer times count as the longest. It keeps five significant digits, which
// takes 120 MB and most of the caches for differences that no run repeats; four are exact to 0.01 %.
const (
	longestPublish  = 60 * time.Second
	longestEndToEnd = 12 * time.Hour
	digits          = 4
)

// Latencies are histograms of microseconds.
type Latencies struct {
	Publish      *hdrhistogram.Histogram // acknowledgement minus actual send, at most 60 s
	PublishDelay *hdrhistogram.Histogram // actual minus intended send, at most 60 s
	EndToEnd     *hdrhistogram.Histogram // arrival minus timestamp, at most 12 h
}

// NewLatencies makes empty histograms.
func NewLatencies() Latencies {
	return Latencies{
		Publish:      hdrhistogram.New(1, longestPublish.Microseconds(), digits),
		PublishDelay: hdrhistogram.New(1, longestPublish.Microseconds(), digits),
		EndToEnd:     hdrhistogram.New(1, longestEndToEnd.Microseconds(), digits),
	}
}

// Merge adds what another worker, or another period, measured.
func (l Latencies) Merge(other Latencies) {
	l.Publish.Merge(other.Publish)
	l.PublishDelay.Merge(other.PublishDelay)
	l.EndToEnd.Merge(other.EndToEnd)
}

// Reset empties the histograms.
func (l Latencies) Reset() {
	l.Publish.Reset()
	l.PublishDelay.Reset()
	l.EndToEnd.Reset()
}

// Encoded are Latencies in HdrHistogram's own compressed format, version 2, as they travel between workers.
type Encoded struct {
	Publish      []byte `json:"publish"`
	PublishDelay []byte `json:"publishDelay"`
	EndToEnd     []byte `json:"endToEnd"`
}

// Encode packs the histograms.
func (l Latencies) Encode() (e Encoded, err error) {
	pack := func(to *[]byte, h *hdrhistogram.Histogram) error {
		var err error
		*to, err = h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
		return err
	}
	err = errors.Join(pack(&e.Publish, l.Publish), pack(&e.PublishDelay, l.PublishDelay), pack(&e.EndToEnd, l.EndToEnd))
	if err != nil {
		return Encoded{}, fmt.Errorf("encode histograms: %w", err)
	}
	return e, nil
}

// Decode unpacks histograms.
func (e Encoded) Decode() (l Latencies, err error) {
	unpack := func(to **hdrhistogram.Histogram, from []byte) error {
		var err error
		*to, err = hdrhistogram.Decode(from)
		return err
	}
	err = errors.Join(unpack(&l.Publish, e.Publish), unpack(&l.PublishDelay, e.PublishDelay), unpack(&l.EndToEnd, e.EndToEnd))
	if err != nil {
		return Latencies{}, fmt.Errorf("decode histograms: %w", err)
	}
	return l, nil
}
