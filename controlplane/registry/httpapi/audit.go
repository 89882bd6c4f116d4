package httpapi

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/freshet-io/freshet/controlplane/registry"
	"github.com/freshet-io/freshet/internal/accesskey"
)

// Entry is an audit entry.
type Entry struct {
	Number  string    `json:"number" doc:"Number of the change in the team, in 16 hexadecimal digits."`
	Actor   string    `json:"actor" doc:"ID of the account that made the change. With an API token, the first 8 digits of its ID follow."`
	Address string    `json:"address,omitempty" doc:"Network address of the request."`
	Action  string    `json:"action" doc:"Kind of the change, for example member.add."`
	Subject string    `json:"subject" doc:"ID of the changed record, with its name if it has one. Of cluster.limit: the ID, and the former and new value of each changed limit, where 0 is the default."`
	Time    time.Time `json:"time" doc:"Time of the change."`

	ActorEmail   string `json:"actor_email,omitempty" doc:"E-mail address of the actor's account, unless it was deleted."`
	ActorToken   string `json:"actor_token,omitempty" doc:"Name of the actor's API token, unless it was revoked."`
	SubjectEmail string `json:"subject_email,omitempty" doc:"E-mail address of a changed member, unless the account was deleted."`
}

func (h *Handler) routeAudit(r *router) {
	handle(h, r, "list-audit", func(ctx context.Context, _ *caller, in *listInput) (*pageOutput[Entry], error) {
		list := "audit/" + in.Team
		before, err := in.before(list)
		if err != nil {
			return nil, err
		}
		all, next, err := h.cfg.Registry.Audit(ctx, in.Team, before)
		if err != nil {
			return nil, err
		}
		h.warn(list, all.Faults)
		if len(all.Records) > in.Limit {
			all.Records = all.Records[:in.Limit]
			if next, err = strconv.ParseUint(all.Records[in.Limit-1].Number, 16, 64); err != nil {
				return nil, registry.ErrMalformed
			}
		}
		out := &pageOutput[Entry]{Page[Entry]{Unreadable: len(all.Faults)}}
		if out.Body.Items, err = h.entries(ctx, in.Team, all.Records); err != nil {
			return nil, err
		}
		if next > 0 {
			out.Body.Next = cursor(list, strconv.FormatUint(next, 10))
		}
		return out, nil
	})
}

// entries returns audit entries with the e-mail addresses of their accounts and the names of their API tokens.
func (h *Handler) entries(ctx context.Context, team string, records []*registry.Entry) ([]Entry, error) {
	tokens, err := h.cfg.Registry.Tokens(ctx, team)
	if err != nil {
		return nil, err
	}
	names := map[string]string{} // by actor
	for _, t := range tokens.Records {
		if hash, ok := accesskey.ParseHash(t.SHA256); ok {
			names[tokenActor(t.Account, hash)] = t.Name
		}
	}
	known, all := emails{}, []Entry{}
	for _, e := range records {
		shown := Entry{Number: e.Number, Actor: e.Actor, Address: e.Address, Action: e.Action, Subject: e.Subject, Time: e.Time, ActorToken: names[e.Actor]}
		account, _, _ := strings.Cut(e.Actor, " ")
		if shown.ActorEmail, err = known.of(ctx, h, account); err != nil {
			return nil, err
		}
		if strings.HasPrefix(e.Action, "member.") {
			if shown.SubjectEmail, err = known.of(ctx, h, e.Subject); err != nil {
				return nil, err
			}
		}
		all = append(all, shown)
	}
	return all, nil
}

// before returns the entry number in a cursor, 0 for the first page. Error: errCursor.
func (p PageInput) before(list string) (uint64, error) {
	key, err := p.after(list)
	if err != nil || key == "" {
		return 0, err
	}
	n, err := strconv.ParseUint(key, 10, 64)
	if err != nil || n == 0 {
		return 0, errCursor
	}
	return n, nil
}
