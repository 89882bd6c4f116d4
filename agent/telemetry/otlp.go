package telemetry

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// errMalformed says that a payload is not OTLP metrics data.
var errMalformed = errors.New("malformed metrics data")

// point is one number of a push.
type point struct {
	metric     string
	attributes string // "name=value" in order, joined by commas
	value      float64
	sum        bool // else a gauge
	delta      bool // of a sum: since the last push, else since the start
}

// Field numbers of opentelemetry.proto.metrics.v1, as far as they are read:
//
//	MetricsData          1 resource_metrics
//	ResourceMetrics      2 scope_metrics
//	ScopeMetrics         2 metrics
//	Metric               1 name, 5 gauge, 7 sum
//	Gauge, Sum           1 data_points; Sum: 2 aggregation_temporality (1 is delta)
//	NumberDataPoint      4 as_double, 6 as_int (sfixed64), 7 attributes
//	KeyValue             1 key, 2 value
//	AnyValue             1 string, 2 bool, 3 int, 4 double
//
// Histograms, which Kafka's clients do not push, are left out.
const aggregationDelta = 1

// decode calls add for each point of OTLP metrics data, until add says stop. It allocates for one point at a time.
// Errors are errMalformed.
func decode(data []byte, add func(point) bool) error {
	more := true
	err := messages(data, 1, &more, func(resource []byte) error {
		return messages(resource, 2, &more, func(scope []byte) error {
			return messages(scope, 2, &more, func(metric []byte) error {
				return decodeMetric(metric, func(p point) { more = add(p) }, &more)
			})
		})
	})
	return err
}

// field is one field of a message. bytes is set for length-delimited ones, number for all others.
type field struct {
	number protowire.Number
	kind   protowire.Type
	bytes  []byte
	bits   uint64
}

// fields walks a message.
func fields(data []byte, fn func(field) error) error {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return fmt.Errorf("%w: %w", errMalformed, protowire.ParseError(n))
		}
		data = data[n:]
		f := field{number: number, kind: kind}
		switch kind {
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(data)
		case protowire.VarintType:
			f.bits, n = protowire.ConsumeVarint(data)
		case protowire.Fixed64Type:
			f.bits, n = protowire.ConsumeFixed64(data)
		default:
			n = protowire.ConsumeFieldValue(number, kind, data)
		}
		if n < 0 {
			return fmt.Errorf("%w: %w", errMalformed, protowire.ParseError(n))
		}
		data = data[n:]
		if err := fn(f); err != nil {
			return err
		}
	}
	return nil
}

// messages calls fn for each embedded message of a number, as long as more is true.
func messages(data []byte, number protowire.Number, more *bool, fn func([]byte) error) error {
	return fields(data, func(f field) error {
		if !*more || f.number != number || f.kind != protowire.BytesType {
			return nil
		}
		return fn(f.bytes)
	})
}

func decodeMetric(data []byte, add func(point), more *bool) error {
	var name string
	var numbers [][]byte
	var sums []bool
	err := fields(data, func(f field) error {
		switch {
		case f.kind != protowire.BytesType:
		case f.number == 1:
			name = string(f.bytes)
		case (f.number == 5 || f.number == 7) && len(numbers) == 0: // a oneof: there is one
			numbers, sums = append(numbers, f.bytes), append(sums, f.number == 7)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, data := range numbers {
		delta := false
		if err := fields(data, func(f field) error {
			delta = delta || f.number == 2 && f.bits == aggregationDelta
			return nil
		}); err != nil {
			return err
		}
		err := messages(data, 1, more, func(data []byte) error {
			p := point{metric: name, sum: sums[i], delta: sums[i] && delta}
			if err := p.read(data); err != nil {
				return err
			}
			add(p)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// read takes value and attributes of a NumberDataPoint.
func (p *point) read(data []byte) error {
	var attributes []string
	err := fields(data, func(f field) error {
		switch {
		case f.number == 4 && f.kind == protowire.Fixed64Type:
			p.value = math.Float64frombits(f.bits)
		case f.number == 6 && f.kind == protowire.Fixed64Type:
			p.value = float64(int64(f.bits))
		case f.number == 7 && f.kind == protowire.BytesType && len(attributes) < maxAttributes:
			text, err := attribute(f.bytes)
			attributes = append(attributes, text)
			return err
		}
		return nil
	})
	slices.Sort(attributes)
	p.attributes = strings.Join(attributes, ",")
	return err
}

// attribute gives a KeyValue as name=value.
func attribute(data []byte) (string, error) {
	var name, value string
	err := fields(data, func(f field) error {
		switch {
		case f.kind != protowire.BytesType:
		case f.number == 1:
			name = string(f.bytes)
		case f.number == 2:
			return fields(f.bytes, func(f field) error {
				switch {
				case f.number == 1 && f.kind == protowire.BytesType:
					value = string(f.bytes)
				case f.number == 2 && f.kind == protowire.VarintType:
					value = strconv.FormatBool(f.bits != 0)
				case f.number == 3 && f.kind == protowire.VarintType:
					value = strconv.FormatInt(int64(f.bits), 10)
				case f.number == 4 && f.kind == protowire.Fixed64Type:
					value = strconv.FormatFloat(math.Float64frombits(f.bits), 'g', -1, 64)
				}
				return nil
			})
		}
		return nil
	})
	return name + "=" + value, err
}
