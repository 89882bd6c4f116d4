package writer

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/commit"
)

// validate checks the batch's header, and what its commit says by the rules of commit.Reader, so that a batch that was not
// validated before (another agent handed it over) fails alone. Errors wrap ErrMalformed.
func (b *Batch) validate() error {
	if err := kafkaproto.CheckHeader(b.Bytes); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if err := b.Commit.Validate(b.Partition); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

// isolate goes on after a commit that the sequencer calls malformed, although every batch of it passed validate: the owner
// is of a version with other rules. A refused commit has no effect, so a part of it may be handed in under the same name. The
// part is halved until the sequencer takes it. The other half is set aside: its clients send it again, in another bundle. A
// batch that is refused on its own is the offender. Of n batches, at most 2*log2(n) parts are handed in.
func (b *sealed) isolate(acked uint32, until time.Time, refusal error) (*commit.Result, error) {
	b.s.w.metrics.isolations.Inc()
	for {
		lower, upper := halve(b.groups, b.entries)
		if len(upper) == 0 {
			b.s.w.log.Error("batch refused by the control plane; upgrade it to the version of its agents",
				zap.Stringer("bundle", b.name()), zap.Stringer("partition", b.groups[0].partition), zap.Error(refusal))
			b.giveUp()
			return nil, fmt.Errorf("%w: %w", ErrRefused, refusal)
		}
		result, err := b.submit(b.encode(lower, acked), until)
		if !errors.Is(err, client.ErrInvalid) {
			return b.keep(lower, upper, result, err)
		}
		result, err = b.submit(b.encode(upper, acked), until)
		if !errors.Is(err, client.ErrInvalid) {
			return b.keep(upper, lower, result, err)
		}
		_, _ = b.keep(lower, upper, nil, nil) // an offender in each half
	}
}

// keep makes one part of the bundle the whole of it and sets the other aside. A commit that is late, or whose session has
// ended, ends the part as well.
func (b *sealed) keep(part, aside []group, result *commit.Result, err error) (*commit.Result, error) {
	for _, g := range aside {
		for i := g.first; i >= 0; i = b.entries[i].next {
			b.s.w.resolve(b.entries[i].owner, b.entries[i].index, Failed(ErrSetAside))
		}
	}
	b.groups = part
	if errors.Is(err, client.ErrLate) {
		b.giveUp()
		return nil, ErrWithdrawn
	}
	return result, err
}

// halve splits groups into two parts of about as many batches, in order. A group in the middle is cut in two. upper is empty
// if there is a single batch.
func halve(groups []group, entries []entry) (lower, upper []group) {
	total := 0
	for _, g := range groups {
		for i := g.first; i >= 0; i = entries[i].next {
			total++
		}
	}
	left := (total + 1) / 2
	for k, g := range groups {
		last := int32(-1)
		for i := g.first; i >= 0 && left > 0; i = entries[i].next {
			last = i
			left--
		}
		if left > 0 || last == g.last {
			continue
		}
		// The cut is behind last, in this group.
		rest := group{partition: g.partition, first: g.first, last: g.last}
		lower = append(lower, groups[:k]...)
		if last >= 0 {
			rest.first = entries[last].next
			entries[last].next = -1
			lower = append(lower, group{partition: g.partition, first: g.first, last: last})
		}
		return lower, append([]group{rest}, groups[k+1:]...)
	}
	return groups, nil
}
