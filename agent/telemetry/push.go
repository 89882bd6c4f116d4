package telemetry

import (
	"errors"
	"math"

	"github.com/freshet-io/freshet/internal/clientmetrics"
	"github.com/freshet-io/freshet/kafkaproto"
)

// Push is what a client sends.
type Push struct {
	ID           InstanceID
	Subscription int32
	Terminating  bool // the client's last
	Compression  kafkaproto.Codec
	Metrics      []byte // OTLP metrics data, compressed; not kept
}

// Codecs are the compression types that clients may use beside none, best first.
func Codecs() []kafkaproto.Codec {
	return []kafkaproto.Codec{kafkaproto.Zstd, kafkaproto.LZ4, kafkaproto.Gzip, kafkaproto.Snappy}
}

// Push takes a client's metrics. Errors: those of this package.
func (t *Telemetry) Push(p Push, about clientmetrics.Client) error {
	err := t.push(p, about)
	switch {
	case err == nil:
		t.metrics.pushes.WithLabelValues(resultTaken).Inc()
	case errors.Is(err, ErrThrottled):
		t.metrics.pushes.WithLabelValues(resultThrottled).Inc()
	default:
		t.metrics.pushes.WithLabelValues(resultRefused).Inc()
	}
	return err
}

func (t *Telemetry) push(p Push, about clientmetrics.Client) error {
	if p.ID.reserved() {
		return ErrTerminated
	}
	if err := t.admit(p, about); err != nil {
		return err
	}
	if len(p.Metrics) == 0 {
		return nil
	}
	points, err := t.read(p)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.mu.clients[p.ID]; c != nil {
		for i := range points {
			t.keep(c, &points[i])
		}
	}
	return nil
}

// admit checks a push in the order of ClientMetricsManager.validatePushRequest.
func (t *Telemetry) admit(p Push, about clientmetrics.Client) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.cfg.Now()
	c := t.client(p.ID, about)
	terminated := c.terminating
	c.terminating = p.Terminating
	if terminated {
		return ErrTerminated
	}
	inTime := c.lastGet.After(c.lastPush) || now.Sub(c.lastPush) >= c.interval
	if inTime {
		c.lastPush = now
	}
	switch {
	case !inTime && !p.Terminating:
		return ErrThrottled
	case p.Subscription != c.subscription:
		return ErrUnknownSubscription
	case p.Compression < kafkaproto.NoCodec || p.Compression > kafkaproto.Zstd:
		return ErrCompression
	case len(p.Metrics) > MaxBytes:
		return ErrTooLarge
	}
	return nil
}

// read decodes the points of a push, without the lock.
func (t *Telemetry) read(p Push) ([]point, error) {
	data := p.Metrics
	if p.Compression != kafkaproto.NoCodec {
		var err error
		if data, err = kafkaproto.Decompress(p.Compression, data, maxInflated); err != nil {
			return nil, ErrInvalid
		}
	}
	var points []point
	err := decode(data, func(next point) bool {
		if len(points) == maxPoints {
			t.metrics.dropped.WithLabelValues(droppedPoints).Inc()
			return false
		}
		points = append(points, next)
		return true
	})
	if err != nil {
		return nil, ErrInvalid
	}
	return points, nil
}

// keep puts a point to its series. Called with the lock.
func (t *Telemetry) keep(c *client, p *point) {
	if math.IsNaN(p.value) || math.IsInf(p.value, 0) {
		t.metrics.dropped.WithLabelValues(droppedNoMetrics).Inc()
		return
	}
	key := series{metric: label(p.metric), attributes: label(p.attributes), sum: p.sum}
	before, known := c.series[key]
	switch {
	case !known && len(c.series) >= maxClientSeries:
		t.metrics.dropped.WithLabelValues(droppedOfClient).Inc()
		return
	case !known && t.mu.series >= maxSeries:
		t.metrics.dropped.WithLabelValues(droppedSeries).Inc()
		return
	case !known:
		t.mu.series++
	}
	if p.delta {
		p.value += before
	}
	c.series[key] = p.value
}
