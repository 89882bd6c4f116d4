package oracle

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Class is a kind of fault.
type Class string

// Classes of faults.
const (
	Lost        Class = "lost"           // acknowledged, not there
	Duplicate   Class = "duplicate"      // there more often than sent
	Reordered   Class = "reordered"      // behind a record that its producer sent later
	Phantom     Class = "phantom"        // never sent, or sent with other content or to another partition
	AbortedRead Class = "aborted-read"   // shown to a reader of committed records, though not committed
	Torn        Class = "torn"           // a part of a transaction is there, and a part is not
	Stale       Class = "stale-read"     // an answer that ignores what was acknowledged or told before it was asked for
	Gap         Class = "offset-gap"     // offsets that no record and no marker has
	Reuse       Class = "offset-reuse"   // one offset, two records
	WrongOffset Class = "wrong-offset"   // read at another offset than acknowledged
	LostCommit  Class = "lost-commit"    // a group's committed offset went back or went away
	TwoOwners   Class = "two-owners"     // two members of a generation have one partition
	NoOwner     Class = "no-owner"       // a settled group leaves a partition to nobody
	Stuck       Class = "not-finished"   // what is there was not delivered, or a transaction did not end, in time
	NothingDone Class = "nothing-tested" // a part of the run has checked nothing
)

// Finding is one fault and its evidence.
type Finding struct {
	Class     Class     `json:"class"`
	Topic     string    `json:"topic,omitempty"`
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"` // -1: none in particular
	Key       string    `json:"key,omitempty"`
	Time      time.Time `json:"time"`     // when it was seen
	Evidence  string    `json:"evidence"` // what was expected and what was seen, with times
}

func (f Finding) String() string {
	at := fmt.Sprintf("%s %s", f.Time.UTC().Format("15:04:05.000"), f.Class)
	if f.Topic != "" {
		at += fmt.Sprintf(" %s/%d", f.Topic, f.Partition)
	}
	if f.Offset >= 0 {
		at += fmt.Sprintf("@%d", f.Offset)
	}
	if f.Key != "" {
		at += " key " + f.Key
	}
	return at + ": " + f.Evidence
}

// perClass bounds how many findings of a class are kept and told; the others are counted only.
const perClass = 20

// Findings collects faults. It is safe for concurrent use.
type Findings struct {
	tell func(Finding) // called for each finding kept, one at a time
	now  func() time.Time

	mu struct {
		sync.Mutex
		kept   []Finding
		counts map[Class]int64
	}
}

// NewFindings gives an empty collection. tell may be nil.
func NewFindings(now func() time.Time, tell func(Finding)) *Findings {
	f := &Findings{tell: tell, now: now}
	f.mu.counts = make(map[Class]int64)
	return f
}

// Add takes a fault in and stamps it with the time.
func (f *Findings) Add(one Finding) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.counts[one.Class]++
	if f.mu.counts[one.Class] > perClass {
		return
	}
	one.Time = f.now()
	f.mu.kept = append(f.mu.kept, one)
	if f.tell != nil {
		f.tell(one)
	}
}

// Kept gives the findings kept, at most perClass of each class.
func (f *Findings) Kept() []Finding {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.mu.kept)
}

// Counts gives how often each class was found.
func (f *Findings) Counts() map[Class]int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.mu.counts)
}

// Total counts all findings.
func (f *Findings) Total() (n int64) {
	for _, each := range f.Counts() {
		n += each
	}
	return n
}
