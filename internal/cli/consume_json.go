package cli

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// jsonRecord is a record as `freshet consume -o json` writes it, in one line. Bytes that are not UTF-8 are in the field with
// "_base64" at the end of its name, instead of the one without.
type jsonRecord struct {
	Topic     string       `json:"topic"`
	Partition int32        `json:"partition"`
	Offset    int64        `json:"offset"`
	Timestamp int64        `json:"timestamp"` // ms since the epoch
	Key       *string      `json:"key"`
	KeyBytes  []byte       `json:"key_base64,omitempty"`
	Value     *string      `json:"value"`
	Bytes     []byte       `json:"value_base64,omitempty"`
	Headers   []jsonHeader `json:"headers,omitempty"`
}

type jsonHeader struct {
	Key   string  `json:"key"`
	Value *string `json:"value"`
	Bytes []byte  `json:"value_base64,omitempty"`
}

// appendJSON appends the record's line.
func appendJSON(line []byte, r *kgo.Record) ([]byte, error) {
	j := jsonRecord{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli()}
	j.Key, j.KeyBytes = jsonText(r.Key)
	j.Value, j.Bytes = jsonText(r.Value)
	for _, h := range r.Headers {
		text, raw := jsonText(h.Value)
		j.Headers = append(j.Headers, jsonHeader{h.Key, text, raw})
	}
	p, err := json.Marshal(j)
	if err != nil {
		return nil, fmt.Errorf("record as JSON: %w", err)
	}
	return append(append(line, p...), '\n'), nil
}

// jsonText returns the text of UTF-8, else the bytes. It returns neither for null.
func jsonText(p []byte) (*string, []byte) {
	switch {
	case p == nil:
		return nil, nil
	case !utf8.Valid(p):
		return nil, p
	}
	text := string(p)
	return &text, nil
}
