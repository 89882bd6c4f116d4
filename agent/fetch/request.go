package fetch

import (
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/freshet-io/freshet/agent/cache"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// Request is one fetch, its topics resolved.
type Request struct {
	Arrived       time.Time // when it had come whole: what is answered about ends is no older (I4)
	Reader        uint64    // whose sequential reads belong together: the connection
	MaxWait       time.Duration
	MinBytes      int
	MaxBytes      int
	ReadCommitted bool
	Partitions    []Partition // read in this order
}

// Partition is one partition to read.
type Partition struct {
	ID       id.TopicPartition
	Offset   int64
	MaxBytes int // but for the answer's first batch
	// Refused is an error that was found before; the partition is not read. If all are refused nothing is waited for.
	Refused *kerr.Error
}

// Result is what one partition brought.
type Result struct {
	Err       *kerr.Error // nil if none; the marks are -1 and there are no records with one
	Marks     view.Watermarks
	Records   net.Buffers // whole batches, aliasing cache memory
	Size      int         // of Records, bytes
	Confirmed bool        // the marks are no older than the request
	Refused   bool        // Err is the request's refusal of this partition
	// Lost means that Err comes from a lost extent. Like Refused, Lost does not end the wait of the fetch.
	Lost bool
	// Aborted are the aborted transactions that reach into Records, in the order of their markers.
	Aborted []extent.Aborted
}

// Response is the results in the order of the request's partitions. Release gives the records' memory back, once.
type Response struct {
	Results []Result
	Bytes   int // of all records
	// NewReader is set if read-ahead state of the request's reader was created: call Fetcher.Leave when the reader is gone.
	NewReader bool
	held      []*cache.Bytes
	unsent    *unsent // where size is counted
	size      int64
}

// hold counts record bytes until Release.
func (r *Response) hold(u *unsent, bytes int) {
	r.unsent = u
	r.size += int64(bytes)
	u.held.Add(int64(bytes))
}

// Release ends the use of the records.
func (r *Response) Release() {
	for _, b := range r.held {
		b.Release()
	}
	r.held = nil
	if r.unsent != nil {
		r.unsent.release(r.size)
		r.size = 0
	}
}

// reset forgets what was read, to read again.
func (r *Response) reset() {
	r.Release()
	clear(r.Results)
	r.Bytes = 0
}

var noMarks = view.Watermarks{LogStart: -1, HighWatermark: -1, LastStable: -1}

func (r *Result) fail(err *kerr.Error) { *r = Result{Err: err, Marks: noMarks} }
