package httpapi

import (
	"context"
	"strconv"
	"time"

	"github.com/freshet-io/freshet/controlplane/registry"
)

// Entry is an audit entry.
type Entry struct {
	Number  string    `json:"number" doc:"Number of the change in the team, in 16 hexadecimal digits."`
	Actor   string    `json:"actor" doc:"ID of the account that made the change. With an API token, the first 8 digits of its ID follow."`
	Address string    `json:"address,omitempty" doc:"Network address of the request."`
	Action  string    `json:"action" doc:"Kind of the change, for example member.add."`
	Subject string    `json:"subject" doc:"ID of the changed record, with its name if it has one."`
	Time    time.Time `json:"time" doc:"Time of the change."`
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
		out := &pageOutput[Entry]{Page[Entry]{Items: []Entry{}, Unreadable: len(all.Faults)}}
		for _, e := range all.Records {
			out.Body.Items = append(out.Body.Items, Entry{Number: e.Number, Actor: e.Actor, Address: e.Address, Action: e.Action, Subject: e.Subject, Time: e.Time})
		}
		if next > 0 {
			out.Body.Next = cursor(list, strconv.FormatUint(next, 10))
		}
		return out, nil
	})
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
