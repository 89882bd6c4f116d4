package peer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/freshet-io/freshet/agent/cache"
	"github.com/freshet-io/freshet/metadata/id"
)

const (
	bundlePath    = "/v1/bundles/"
	streamPath    = "/v1/streams"
	clusterHeader = "Freshet-Cluster"
	zoneHeader    = "Freshet-Zone"
	agentHeader   = "Freshet-Agent"
	reasonHeader  = "Freshet-Refusal"
	wholeUnit     = "whole"

	// maxUnits bounds the units of one request.
	maxUnits = 16
	// maxHeaderBytes bounds a request: its line and headers. Bodies are refused.
	maxHeaderBytes = 16 << 10

	// otherAgent tells the number of an agent from those of readers, in what it reads by another's cache.
	otherAgent = 1 << 63

	headSize    = 12
	stretchSize = 8
)

// result is what became of a unit that was asked for.
type result uint8

const (
	resultHere result = iota
	resultAbsent
	resultGone
	resultFailed
	resultPending // counts as resultFailed at agents of older versions
)

const flagPartial = 1

// head comes before a unit's stretches.
type head struct {
	result  result
	partial bool
	size    int64
}

func (h head) encode() []byte {
	b := make([]byte, headSize)
	b[0] = byte(h.result)
	if h.partial {
		b[1] = flagPartial
	}
	binary.BigEndian.PutUint64(b[4:], uint64(h.size))
	return b
}

func decodeHead(b [headSize]byte) head {
	return head{
		result: result(b[0]), partial: b[1]&flagPartial != 0, size: int64(binary.BigEndian.Uint64(b[4:]) & (1<<63 - 1)),
	}
}

// uri is an order's path and query.
func uri(o *cache.Order) string {
	q := url.Values{"class": {o.Class.String()}, "read": {strconv.FormatBool(o.Read)}}
	for _, u := range o.Units {
		q.Add("unit", unitName(u))
	}
	return bundlePath + o.Bundle.String() + "?" + q.Encode()
}

func unitName(u cache.Unit) string {
	if !u.Part {
		return wholeUnit
	}
	return strconv.FormatUint(uint64(u.First), 10)
}

// errMalformed: the request is not of this protocol.
var errMalformed = errors.New("malformed request")

// parse reads a request that the server's pattern matched.
func parse(r *http.Request) (*cache.Order, error) {
	session, err := strconv.ParseUint(r.PathValue("session"), 10, 32)
	if err != nil {
		return nil, fmt.Errorf("%w: session", errMalformed)
	}
	n, err := strconv.ParseUint(r.PathValue("n"), 10, 32)
	if err != nil {
		return nil, fmt.Errorf("%w: n", errMalformed)
	}
	q := r.URL.Query()
	names := q["unit"]
	if len(names) == 0 || len(names) > maxUnits {
		return nil, fmt.Errorf("%w: %d units", errMalformed, len(names))
	}
	by, err := strconv.ParseUint(r.Header.Get(agentHeader), 10, 32)
	if err != nil {
		return nil, fmt.Errorf("%w: agent", errMalformed)
	}
	o := &cache.Order{By: otherAgent | by}
	o.Bundle = id.Submission{Session: id.Session(session), N: uint32(n)}.Bundle()
	for _, name := range names {
		u, err := parseUnit(name)
		if err != nil {
			return nil, err
		}
		o.Units = append(o.Units, u)
	}
	if o.Read, err = strconv.ParseBool(q.Get("read")); err != nil {
		return nil, fmt.Errorf("%w: read", errMalformed)
	}
	switch q.Get("class") {
	case cache.Live.String():
	case cache.CatchUp.String():
		o.Class = cache.CatchUp
	default:
		return nil, fmt.Errorf("%w: class", errMalformed)
	}
	return o, nil
}

func parseUnit(name string) (cache.Unit, error) {
	if name == wholeUnit {
		return cache.Unit{}, nil
	}
	first, err := strconv.ParseUint(name, 10, 32)
	if err != nil || first%cache.PartUnit != 0 {
		return cache.Unit{}, fmt.Errorf("%w: unit", errMalformed)
	}
	return cache.Unit{First: uint32(first), Part: true}, nil
}

func encodeStretch(position, length uint32) []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, stretchSize), position)
	return binary.BigEndian.AppendUint32(b, length)
}

func decodeStretch(b [stretchSize]byte) (position, length uint32) {
	return binary.BigEndian.Uint32(b[:]), binary.BigEndian.Uint32(b[4:])
}
