package kafka

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/kafkaproto"
)

// Decode reads the request's body into in, a kmsg request of the same API, and sets its version. Counts and lengths
// are checked against the body before anything is allocated for them (kafkaproto.CheckBody). Bytes after the last field
// are cut off req.Body. Strings are copied, byte fields (records) alias req.Body.
func Decode(req *edge.Request, in kmsg.Request) error {
	if in.Key() != req.Key {
		return fmt.Errorf("decode api key %d as %T", req.Key, in)
	}
	size, err := kafkaproto.DecodeBody(req.Version, req.Body, in)
	if err != nil {
		return err
	}
	req.Trim(size)
	return nil
}

// Answer encodes out in the request's version as a reply. Throttle and error fields are the caller's.
func Answer(req *edge.Request, out kmsg.Response) edge.Reply {
	out.SetVersion(req.Version)
	return edge.Reply{Head: out.AppendTo(nil), Errors: errorCodes(out)}
}

// Ready wraps a reply that is known already, for Start to return.
func Ready(r edge.Reply) func() edge.Reply { return func() edge.Reply { return r } }

// Malformed is the answer to a body that cannot be decoded: the connection is closed after the answers before it,
// as Kafka does (InvalidRequestException). err is for the log of the edge.
func Malformed(_ *edge.Request, err error) func() edge.Reply {
	return Ready(edge.Reply{Close: true, Silent: true, Err: err})
}

// closed closes the connection without an answer.
func closed() edge.Reply { return edge.Reply{Close: true, Silent: true} }
