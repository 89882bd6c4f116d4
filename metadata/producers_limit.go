package metadata

import (
	"encoding/binary"

	"github.com/freshet-io/freshet/metadata/internal/wire"
)

// LimitProducers sets the bound of the state's active producers, above 0. It is a command, since
// every replica must refuse the same producers. A lower bound forgets nobody. Result: nil or ErrInvalidCount.
type LimitProducers struct{ Active int64 }

func (c *LimitProducers) appendBody(dst []byte) []byte {
	return binary.AppendUvarint(dst, uint64(c.Active))
}

func (c *LimitProducers) readBody(w *wire.Reader) { c.Active = w.Offset() }

// ProducerLimit is the bound of the state's active producers.
func (s *machine) ProducerLimit() int64 { return s.bounds.active }

// restingShare is how many active producers the bound has for one at rest.
const restingShare = 4

func (s *machine) limitProducers(c *LimitProducers, _ *Effects) error {
	if c.Active < 1 {
		return ErrInvalidCount
	}
	s.bounds = producerBounds{active: c.Active, resting: c.Active / restingShare}
	return nil
}

func (s *machine) encodeProducerLimit(f *sectionWriter) {
	if s.bounds.active == MaxProducers {
		return
	}
	f.buf = binary.AppendUvarint(append(f.buf, byte(recordProducerLimit)), uint64(s.bounds.active))
	f.recordDone()
}

func (d *snapshotDecoder) readProducerLimit(w *wire.Reader) {
	if err := d.s.limitProducers(&LimitProducers{Active: w.Offset()}, nil); err != nil {
		w.Fail("bound of producers")
	}
}
