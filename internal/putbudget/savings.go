package putbudget

import "math"

const (
	// MostSeconds bounds a zone's savings and loans together, in seconds of its budget. This leaves one minute of the hour
	// for the full buckets of writers, including writers that start later.
	MostSeconds = 3540
	// Part bounds a loan to 1/Part of the savings. Loans are renewed once a second, so the rate of spending falls with a time
	// constant of 20 s as savings end. Two idle minutes at the default of 4 PUTs a second allow 24 PUTs a second at first.
	Part = 20
)

// Savings is the owner's account of one zone: the PUTs that no writer used. The zero value holds nothing, and takes nothing
// before SetRate.
type Savings struct {
	rate  float64 // PUTs per second
	saved float64
	lent  float64 // granted, and not spent as far as the owner knows
}

// Loan is the account of one writer's session. The zero value is that of a session that has not reported yet. A Loan
// belongs to one Savings until Close.
type Loan struct {
	known bool
	last  Report
	limit uint64
}

// Report is what a writer says about its budget, once a second.
type Report struct {
	Rate   float64 // of the zone's budget as the writer knows it, PUTs per second
	Unused float64 // tokens that overflowed its bucket, total of the session
	Spent  uint64  // PUTs made by savings, total of the session
	Wanted uint64  // PUTs that it could make by savings until its next report but one
}

// Saved returns the PUTs that can be lent.
func (s *Savings) Saved() float64 { return s.saved }

// SetRate sets the zone's budget, in PUTs per second. A lower budget lowers the bound of the savings.
func (s *Savings) SetRate(rate float64) {
	s.rate = rate
	s.saved = min(s.saved, s.room())
}

// room returns the bound of the savings beside the loans.
func (s *Savings) room() float64 { return max(s.rate*MostSeconds-s.lent, 0) }

// Report adds to the savings the tokens that the writer did not use since its report before. The first report of a session
// only sets the account, because an earlier owner may have counted the tokens before it. So does a report with lower totals.
func (s *Savings) Report(l *Loan, r Report) {
	if !l.known || r.Unused < l.last.Unused || r.Spent < l.last.Spent {
		s.Close(l)
		l.known, l.last, l.limit = true, r, r.Spent
		return
	}
	unused := r.Unused - l.last.Unused
	before := l.outstanding()
	l.last = r
	s.lent -= before - l.outstanding()
	s.saved = max(s.saved, min(s.saved+unused, s.room()))
}

// outstanding returns the granted PUTs that are not spent, as far as the owner knows.
func (l *Loan) outstanding() float64 {
	if l.limit <= l.last.Spent {
		return 0
	}
	return float64(l.limit - l.last.Spent)
}

// Lend renews the loan, and returns the total that the writer may spend. It lends at most 1/Part of the savings.
func (s *Savings) Lend(l *Loan) (limit uint64) {
	if !l.known {
		return 0
	}
	more := math.Floor(min(float64(l.last.Wanted), s.saved/Part)) - l.outstanding()
	if more > 0 {
		l.limit = max(l.limit, l.last.Spent) + uint64(more)
		s.saved -= more
		s.lent += more
	}
	return l.limit
}

// Unused returns the total of unused tokens that was taken into the savings, or 0 before the first report.
func (l *Loan) Unused() float64 { return l.last.Unused }

// Limit returns the total that the writer may spend.
func (l *Loan) Limit() uint64 { return l.limit }

// Close ends the account: the session has ended, hands over, or has a new stream. The rest of the loan is lost.
func (s *Savings) Close(l *Loan) {
	s.lent -= l.outstanding()
	*l = Loan{}
}
