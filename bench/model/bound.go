package model

import (
	"fmt"
	"math"
	"strings"
)

// Load is how a producer meets the cluster.
type Load struct {
	Partitions  int   // that it writes to, evenly
	Agents      int   // or brokers
	Ports       int   // node ids of an agent; 0 is the broker's own
	RecordBytes int64 // matters where a client bounds its buffer in records
	Rate        int64 // wanted, bytes a second
}

// Bound is what one producer of a kind can move through a broker, and what would lift that to the wanted rate.
type Bound struct {
	Client      string  `json:"client"`
	Broker      string  `json:"broker"`
	Connections int     `json:"connections"`
	InFlight    int64   `json:"requests_in_flight"` // of a connection, as far as the broker works on them
	Request     float64 `json:"request_bytes"`
	Bytes       float64 `json:"bytes_in_flight"`
	LatencyMs   float64 `json:"latency_ms"`
	Rate        float64 `json:"bytes_per_second"`
	RateP99     float64 `json:"bytes_per_second_at_p99,omitempty"` // if every answer took as long as the slowest in a hundred
	Binds       string  `json:"binds"`                             // which setting
	Enough      bool    `json:"enough"`                            // for the wanted rate

	Set       string `json:"set,omitempty"` // settings that lift it
	Ports     int    `json:"ports"`         // node ids of an agent that lift it; -1 if none do
	Producers int    `json:"producers"`     // that it takes as they are
}

// window is what is in flight of a client's settings.
type window struct {
	connections int
	inFlight    int64
	request     float64 // bytes
	bytes       float64
	binds       string
}

// maxPorts bounds the search for a number of node ids, which a design would not go beyond.
const maxPorts = 64

// window computes what c can have in flight at b over so many ports an agent. A node id without a partition has no
// connection that carries anything.
func (l Load) window(c Client, b Broker, ports int) window {
	w := window{connections: min(l.Agents*ports, l.Partitions), inFlight: c.InFlight}
	if b.Serves > 0 {
		w.inFlight = min(w.inFlight, b.Serves)
	}
	perConnection := float64(l.Partitions) / float64(w.connections)
	if c.OneBatch && c.OnePartition {
		w.inFlight = min(w.inFlight, int64(math.Ceil(perConnection)))
	}
	if c.OnePartition {
		perConnection = 1
	}
	w.request, w.binds = float64(c.BatchBytes)*perConnection, c.Settings.Batch
	if limit := float64(c.RequestBytes); w.request > limit {
		w.request, w.binds = limit, c.Settings.Request
	}
	w.bytes = float64(w.connections) * float64(w.inFlight) * w.request
	if limit := float64(c.BufferBytes); limit > 0 && w.bytes > limit {
		w.bytes, w.binds = limit, c.Settings.Buffer
	}
	if limit := float64(c.BufferRecords * l.RecordBytes); limit > 0 && w.bytes > limit {
		w.bytes, w.binds = limit, c.Settings.Records
	}
	return w
}

// Of computes the bound of one producer of kind c at b.
func (l Load) Of(c Client, b Broker) Bound {
	ports := b.Ports
	if l.Ports > 0 {
		ports = l.Ports
	}
	w, seconds := l.window(c, b, ports), b.TypicalMs/1000
	r := Bound{
		Client: c.Name, Broker: b.Name, Connections: w.connections, InFlight: w.inFlight, Request: w.request, Bytes: w.bytes,
		LatencyMs: b.TypicalMs, Rate: w.bytes / seconds, Binds: w.binds, Ports: ports, Producers: 1,
	}
	if b.P99Ms > 0 {
		r.RateP99 = w.bytes / (b.P99Ms / 1000)
	}
	r.Enough = r.Rate >= float64(l.Rate)
	if !r.Enough {
		r.Producers = int(math.Ceil(float64(l.Rate) / r.Rate))
		r.Set = l.settings(c, w, float64(l.Rate)*seconds)
		r.Ports = l.ports(c, b, ports)
	}
	return r
}

// ports is how many node ids of an agent reach the wanted rate with the client as it is; -1 if none do.
func (l Load) ports(c Client, b Broker, from int) int {
	for p := from + 1; p <= maxPorts; p++ {
		if l.window(c, b, p).bytes/(b.TypicalMs/1000) >= float64(l.Rate) {
			return p
		}
	}
	return -1
}

// settings are those of c that put need bytes in flight over w's connections.
func (l Load) settings(c Client, w window, need float64) string {
	request := need / float64(w.connections) / float64(w.inFlight)
	perConnection := float64(l.Partitions) / float64(w.connections)
	if c.OnePartition {
		perConnection = 1
	}
	var set []string
	raise := func(name string, have int64, want float64, unit int64) {
		if name != "" && have > 0 && want > float64(have) {
			set = append(set, fmt.Sprintf("%s=%d", name, roundUp(want, unit)))
		}
	}
	batch := request / perConnection
	raise(c.Settings.Batch, c.BatchBytes, batch, kib)
	raise(c.Settings.Request, c.RequestBytes, math.Max(request, batch), kib)
	if strings.HasSuffix(c.Settings.Buffer, ".kbytes") {
		raise(c.Settings.Buffer, c.BufferBytes/kib, need/kib, kib)
	} else {
		raise(c.Settings.Buffer, c.BufferBytes, need, mib)
	}
	raise(c.Settings.Records, c.BufferRecords, need/float64(l.RecordBytes), 1000)
	return strings.Join(set, " ")
}

const (
	kib = 1 << 10
	mib = 1 << 20
)

// roundUp is v to the next whole unit.
func roundUp(v float64, unit int64) int64 { return int64(math.Ceil(v/float64(unit))) * unit }
