package assign

import (
	"iter"
	"slices"
	"sort"
)

// Epochs are the leader epochs of a topic's partitions: the membership version at which each was last given to another
// agent or port, in any view. They are runs of equal ones, so that memory and messages grow with what has moved and not
// with the partitions. They are not changed, only replaced.
type Epochs []Run

// Run is neighbouring partitions of one epoch: those from the end of the run before it.
type Run struct {
	End   int32 // the first partition behind it; ascends, and the last one's is the number of partitions
	Epoch int32 // other than that of the run before
}

// Uniform gives as many partitions the same epoch.
func Uniform(partitions, epoch int32) Epochs { return Epochs{}.Append(partitions, epoch) }

// Append adds partitions of an epoch behind the others. It may write to the memory of e, as append does.
func (e Epochs) Append(partitions, epoch int32) Epochs {
	if partitions <= 0 {
		return e
	}
	last := len(e) - 1
	if last >= 0 && e[last].Epoch == epoch {
		e[last].End += partitions
		return e
	}
	return append(e, Run{End: e.Partitions() + partitions, Epoch: epoch})
}

// Partitions is how many partitions there are.
func (e Epochs) Partitions() int32 {
	if len(e) == 0 {
		return 0
	}
	return e[len(e)-1].End
}

// At gives the epoch of one partition, -1 if there is none.
func (e Epochs) At(partition int32) int32 {
	i := sort.Search(len(e), func(i int) bool { return partition < e[i].End })
	if partition < 0 || i == len(e) {
		return -1
	}
	return e[i].Epoch
}

// Runs gives the runs as numbers of partitions and their epochs.
func (e Epochs) Runs() iter.Seq2[int32, int32] {
	return func(yield func(partitions, epoch int32) bool) {
		from := int32(0)
		for _, r := range e {
			if !yield(r.End-from, r.Epoch) {
				return
			}
			from = r.End
		}
	}
}

// Raise gives the epochs with those of some partitions replaced. moved has an element for each partition.
func (e Epochs) Raise(moved []bool, epoch int32) Epochs {
	if !slices.Contains(moved, true) {
		return e
	}
	raised := make(Epochs, 0, len(e)+2)
	p := 0
	for n, old := range e.Runs() {
		for range n {
			if moved[p] {
				raised = raised.Append(1, epoch)
			} else {
				raised = raised.Append(1, old)
			}
			p++
		}
	}
	return raised
}
