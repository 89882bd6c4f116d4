// Package step has what one call of a group machine (packages classic and consumer) brings about. The machines have no
// I/O: they change their memory at once and give back what is to be logged and who is to be answered; package group
// carries it out.
package step

import "github.com/freshet-io/freshet/metadata"

// Step is the outcome of one call of a group machine. The zero Step brings about nothing.
type Step struct {
	// Writes are to be logged in this order. Their Group is the machine's.
	Writes []metadata.UpdateGroup
	// Answers are to be called, in this order, once these Writes and all earlier ones of the group are applied. Each
	// is called exactly once. They are quick and touch nothing of the machine. Where a write failed, the replies they
	// call answer that error in place of what the machine decided.
	Answers []func()
}

// Add appends another step's outcome.
func (s *Step) Add(other Step) {
	s.Writes = append(s.Writes, other.Writes...)
	s.Answers = append(s.Answers, other.Answers...)
}

// Answer appends one answer.
func (s *Step) Answer(fn func()) { s.Answers = append(s.Answers, fn) }

// Empty tells whether nothing is to be done.
func (s *Step) Empty() bool { return len(s.Writes) == 0 && len(s.Answers) == 0 }
