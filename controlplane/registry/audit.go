package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Actor makes a change, for the audit entry.
type Actor struct {
	Name    string // for example an account ID
	Address string // network address, "" for none
	// Role bounds the roles that the actor gives, changes and removes; "" means no bound.
	Role Role
}

// may returns ErrRole if a role is above the actor's.
func (a Actor) may(role Role) error {
	if a.Role == "" || a.Role.Includes(role) {
		return nil
	}
	return fmt.Errorf("%w: %s, and the actor has role %s", ErrRole, role, a.Role)
}

// Entry is an audit entry: one change in a team.
type Entry struct {
	Head
	Team    string    `json:"-"`
	Number  string    `json:"-"` // 16 hexadecimal digits, from 1
	Actor   string    `json:"actor"`
	Address string    `json:"address,omitempty"`
	Action  string    `json:"action"`  // for example "member.add"
	Subject string    `json:"subject"` // ID of the changed record, and its name if it has one, or the changed limits
	Time    time.Time `json:"time"`
}

const (
	auditKind   = "audit"
	entryDigits = 16
	// MaxAuditPage bounds the entries of a page.
	MaxAuditPage = 100
)

func (e *Entry) kind() string     { return auditKind }
func (e *Entry) place() []*string { return []*string{&e.Team, &e.Number} }
func (e *Entry) check() error {
	errs := []error{text("actor", e.Actor, MaxNameBytes), text("action", e.Action, MaxNameBytes), text("subject", e.Subject, MaxSubjectBytes), created(e.Time)}
	if e.Address != "" {
		errs = append(errs, text("address", e.Address, MaxAddressBytes))
	}
	return errors.Join(errs...)
}

func entryNumber(n uint64) string { return fmt.Sprintf("%0*x", entryDigits, n) }

// auditRoom returns the number of audit entries that the team keeps.
func (t *Team) auditRoom() uint64 {
	if !t.Approved() {
		return MaxUnapprovedAuditEntries
	}
	return MaxAuditEntries
}

// audit counts an entry in the team, and returns the operations that store it and delete the entries that are now too old.
func (r *Registry) audit(t *Team, by Actor, c change) ([]clientv3.Op, error) {
	t.Audited++
	ops, err := r.puts(&Entry{Team: t.ID, Number: entryNumber(t.Audited), Actor: by.Name, Address: by.Address, Action: c.action, Subject: c.subject, Time: r.now()})
	if room := t.auditRoom(); t.Audited > room {
		oldest := r.key(auditKind, t.ID, entryNumber(t.Audited-room+1))
		ops = append(ops, clientv3.OpDelete(r.key(auditKind, t.ID)+"/", clientv3.WithRange(oldest)))
	}
	return ops, err
}

// Audit returns a page of a team's entries, the newest first. A page begins below the number before, and 0 begins at the newest. next is the value of before
// for the next page, 0 after the last. Of a team that was approved, pages can be empty: entries from before the approval were deleted earlier. Errors: those of Team.
func (r *Registry) Audit(ctx context.Context, teamID string, before uint64) (page List[Entry], next uint64, err error) {
	t, err := r.Team(ctx, teamID)
	if err != nil {
		return page, 0, err
	}
	if before == 0 || before > t.Audited+1 {
		before = t.Audited + 1
	}
	oldest := uint64(1)
	if room := t.auditRoom(); t.Audited > room {
		oldest = t.Audited - room + 1
	}
	if before <= oldest {
		return page, 0, nil
	}
	from := oldest
	if before-oldest > MaxAuditPage {
		from = before - MaxAuditPage
		next = from
	}
	resp, err := r.cfg.Client.Get(ctx, r.key(auditKind, teamID, entryNumber(from)), clientv3.WithRange(r.key(auditKind, teamID, entryNumber(before))))
	if err != nil {
		return page, 0, fmt.Errorf("list audit entries in etcd: %w", err)
	}
	for _, kv := range slices.Backward(resp.Kvs) {
		e := &Entry{Team: teamID, Number: lastPart(kv.Key)}
		if err := decode(e, kv); err != nil {
			page.Faults = append(page.Faults, err)
			continue
		}
		page.Records = append(page.Records, e)
	}
	return page, next, nil
}
