package cli

import (
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// position is where to start in a partition.
type position struct {
	kind  positionKind
	value int64 // an offset, or ms since the epoch
}

type positionKind uint8

const (
	atEarliest positionKind = iota
	atLatest
	atOffset
	atTime // the first record of that time or later
)

// parsePosition reads what a flag says: earliest, latest, an offset, a time as RFC 3339, @ and ms since the epoch, or how
// long before now.
func parsePosition(s, flag string, now time.Time) (position, error) {
	switch s {
	case "earliest":
		return position{kind: atEarliest}, nil
	case "latest":
		return position{kind: atLatest}, nil
	}
	if ms, ok := strings.CutPrefix(s, "@"); ok {
		if n, err := strconv.ParseInt(ms, 10, 64); err == nil && n >= 0 {
			return position{atTime, n}, nil
		}
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && n >= 0 {
		return position{atOffset, n}, nil
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return position{atTime, t.UnixMilli()}, nil
	}
	if ago, err := time.ParseDuration(s); err == nil && ago > 0 {
		return position{atTime, now.Add(-ago).UnixMilli()}, nil
	}
	return position{}, usagef("%s %q: want earliest, latest, an offset, a time like 2026-01-31T12:00:00Z, how long ago, like 90m, "+
		"or @ and ms since the epoch", flag, s)
}

func (p position) offset() kgo.Offset {
	switch p.kind {
	case atLatest:
		return kgo.NewOffset().AtEnd()
	case atOffset:
		return kgo.NewOffset().At(p.value)
	case atTime:
		return kgo.NewOffset().AfterMilli(p.value)
	case atEarliest:
	}
	return kgo.NewOffset().AtStart()
}

// reset is where to go on when the log was trimmed under the position: an offset given by number must be there.
func (p position) reset() kgo.Offset {
	if p.kind == atOffset {
		return kgo.NoResetOffset()
	}
	return kgo.NewOffset().AtStart()
}
