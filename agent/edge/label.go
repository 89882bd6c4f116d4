package edge

import (
	"context"
	"runtime/pprof"

	"github.com/freshet-io/freshet/kafkaproto"
)

// LabelKey is the label by which CPU profiles tell what a connection's goroutines worked for: a Kafka API by its name, or
// LabelConnection. Reading a frame's first bytes counts for the API of the frame before, since nobody knows better yet.
// What handlers start goes by their label, too.
const (
	LabelKey        = "api"
	LabelConnection = "connection" // accepting one, its handshake and its end
)

// apiLabels and connectionLabel hold the labels ready: setting one costs a goroutine some 30 ns.
var (
	apiLabels       = newAPILabels()
	connectionLabel = labelled(LabelConnection)
)

func newAPILabels() (labels [kafkaproto.MaxKey + 1]context.Context) {
	for _, e := range kafkaproto.Table() {
		labels[e.Key] = labelled(e.Name)
	}
	return labels
}

func labelled(value string) context.Context {
	return pprof.WithLabels(context.Background(), pprof.Labels(LabelKey, value))
}

// label says that this goroutine works for an API of the table from now on.
func label(key int16) { pprof.SetGoroutineLabels(apiLabels[key]) }

// labelOther says that it works for the connection itself.
func labelOther() { pprof.SetGoroutineLabels(connectionLabel) }
