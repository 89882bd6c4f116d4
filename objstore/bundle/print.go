package bundle

import (
	"bufio"
	"fmt"
	"io"
)

// codecs are the names of the compression types in the lowest three bits of a batch's attributes.
var codecs = [8]string{"none", "gzip", "snappy", "lz4", "zstd", "5", "6", "7"}

// Print writes the description for people, one line per section, one per batch and one per seek entry.
func (d *Description) Print(out io.Writer) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "bundle %s  of %s  size %d  crc32c %08x  sections %d\n",
		d.Name, d.Kind, d.Size, d.CRC32C, len(d.Sections))
	for _, s := range d.Sections {
		fmt.Fprintf(w, "section %s  position %d  length %d  batches %d\n", s.Partition, s.Position, s.Length, s.Batches)
		for _, b := range s.Contents {
			if d.Kind == OfJob {
				fmt.Fprintf(w, "  offset %d", b.BaseOffset) // in an agent's it is the producer's, and means nothing
			}
			b.print(w)
		}
	}
	for _, e := range d.Seek {
		fmt.Fprintf(w, "seek  position %d  length %d  first_offset %d  max_timestamp %d\n",
			e.Position, e.Length, e.First, e.MaxTimestamp)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print bundle: %w", err)
	}
	return nil
}

func (b *BatchDescription) print(w io.Writer) {
	fmt.Fprintf(w, "  batch  position %d  length %d  records %d  codec %s  max_timestamp %d",
		b.Position, b.Length, b.Records, codecs[b.Attributes&7], b.MaxTimestamp)
	if b.ProducerID >= 0 {
		fmt.Fprintf(w, "  producer %d  epoch %d  sequence %d", b.ProducerID, b.ProducerEpoch, b.BaseSequence)
	}
	fmt.Fprintf(w, "  crc32c %08x", b.CRC32C)
	if b.Attributes&(1<<4) != 0 {
		fmt.Fprint(w, "  transactional")
	}
	if !b.Intact {
		fmt.Fprint(w, "  BROKEN")
	}
	fmt.Fprintln(w)
}
