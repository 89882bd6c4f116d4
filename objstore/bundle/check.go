package bundle

import (
	"fmt"
	"io"

	"github.com/freshet-io/freshet/metadata/id"
)

// Check reads the bundle of that size whole and checks what Inspect checks of batches and footer, in bounded memory: it
// keeps nothing of the batches. It gives the bundle's name. Errors as for Inspect.
func Check(r io.ReaderAt, size int64) (id.Submission, error) {
	d, trailer, err := readFrame(r, size)
	if err != nil {
		return id.Submission{}, err
	}
	w := walker{r: r, end: int64(trailer.footerAt)}
	for i, s := range d.Sections {
		if err := w.check(i, s.Section); err != nil {
			return d.Name, err
		}
	}
	if w.crc != trailer.batchesCRC {
		return d.Name, fmt.Errorf("%w: batches have CRC-32C %08x, trailer says %08x", ErrMalformed, w.crc, trailer.batchesCRC)
	}
	return d.Name, nil
}

func (w *walker) check(i int, s Section) error {
	n := uint32(0)
	for at, end := int64(s.Position), int64(s.Position)+int64(s.Length); at < end; n++ {
		b, err := w.batch(at, end)
		if err != nil {
			return err
		}
		if !b.Intact {
			return fmt.Errorf("%w: batch at %d of section %d does not match its checksum", ErrMalformed, b.Position, i)
		}
		at += int64(b.Length)
	}
	if n != s.Batches {
		return fmt.Errorf("%w: section at %d has %d batches, footer says %d", ErrMalformed, s.Position, n, s.Batches)
	}
	return nil
}
