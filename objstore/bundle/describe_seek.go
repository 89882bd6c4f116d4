package bundle

import "fmt"

// describeSeek reads the seek table.
func describeSeek(d *Description, t trailer) error {
	s, err := parseSeekTable(t, t.seek())
	if err != nil {
		return err
	}
	for _, e := range s.entries {
		d.Seek = append(d.Seek, SeekDescription{
			Position: e.position, Length: e.length, First: e.first, MaxTimestamp: e.maxTimestamp,
		})
	}
	return nil
}

// checkSeek compares the seek table with the batches: each entry is a stretch of whole batches of one section, and tells
// their first offset and largest timestamp.
func checkSeek(d *Description) error {
	left := d.Seek
	for _, s := range d.Sections {
		for i := 0; i < len(s.Contents) && len(left) > 0; {
			if s.Contents[i].Position != left[0].Position {
				i++
				continue
			}
			n := chunkBatches(s.Contents[i:], left[0])
			if n == 0 {
				return fmt.Errorf("%w: seek entry at %d does not match its batches", ErrMalformed, left[0].Position)
			}
			i += n
			left = left[1:]
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("%w: seek entry at %d is not at a batch", ErrMalformed, left[0].Position)
	}
	return nil
}

// chunkBatches gives how many of a section's remaining batches the entry stands for; 0 if it does not match them.
func chunkBatches(batches []BatchDescription, e SeekDescription) int {
	length, timestamp := uint64(0), int64(-1)
	for i, b := range batches {
		length += uint64(b.Length)
		timestamp = max(timestamp, b.MaxTimestamp)
		if length < uint64(e.Length) {
			continue
		}
		if length == uint64(e.Length) && timestamp == e.MaxTimestamp && batches[0].BaseOffset == e.First {
			return i + 1
		}
		return 0
	}
	return 0
}
