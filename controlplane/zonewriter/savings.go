package zonewriter

import (
	"time"

	"github.com/freshet-io/freshet/internal/putbudget"
	"github.com/freshet-io/freshet/metadata/id"
)

// maxEmpty is the number of zones above which the savings of zones without agents are dropped.
const maxEmpty = maxShown

// savings are the unused PUTs of each zone (package putbudget). They last as long as the tenure, beyond the agents of the
// zone: a zone whose only agent restarts keeps them.
type savings map[string]*putbudget.Savings

// of returns the savings of a zone.
func (s savings) of(zone string) *putbudget.Savings {
	if s[zone] == nil {
		s[zone] = &putbudget.Savings{}
	}
	return s[zone]
}

// close ends the loan of a member that leaves, hands over, or has a new stream. Its rest is lost.
func (s savings) close(m *member) {
	s.of(m.zone).Close(&m.loan)
	m.settled = time.Time{}
}

// forget drops the savings of zones without members if there are many zones.
func (s savings) forget(members map[id.Session]*member) {
	if len(s) <= maxEmpty {
		return
	}
	used := make(map[string]bool, len(s))
	for _, m := range members {
		used[m.zone] = true
	}
	for zone := range s {
		if !used[zone] {
			delete(s, zone)
		}
	}
}

// settle takes the newest reports of all writers into the savings of their zones, and renews their loans if lends is set. It
// counts a writer only once the agent knows its share: an agent that hands over uses no tokens. Called with mu held.
func (t *Tenure) settle(lends bool) {
	now, rates := time.Now(), map[string]float64{}
	var writers []*member
	for session, m := range t.mu.members {
		if t.mu.plans[m.zone].Of[session].Writer != session || m.told.writer != session || m.budget.Rate == 0 {
			t.mu.savings.close(m)
			continue
		}
		writers = append(writers, m)
		if rate, ok := rates[m.zone]; !ok || m.budget.Rate < rate {
			rates[m.zone] = m.budget.Rate // while agents differ, the lowest budget counts
		}
	}
	for _, m := range writers {
		of := t.mu.savings.of(m.zone)
		of.SetRate(rates[m.zone])
		of.Report(&m.loan, m.counted(now))
	}
	for _, m := range writers {
		if lends {
			t.mu.savings.of(m.zone).Lend(&m.loan)
		}
	}
}

// counted returns the member's newest report, with at most the unused tokens that the zone's budget gives in the time since the report
// before. The rest counts later: an agent may report late, or report more than it had.
func (m *member) counted(now time.Time) putbudget.Report {
	r := m.budget
	if !m.settled.IsZero() {
		r.Unused = min(r.Unused, m.loan.Unused()+r.Rate*now.Sub(m.settled).Seconds())
	}
	m.settled = now
	return r
}
