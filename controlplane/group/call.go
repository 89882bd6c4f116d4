package group

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/group/classic"
	"github.com/freshet-io/freshet/controlplane/group/step"
	"github.com/freshet-io/freshet/controlplane/owner"
)

// call is one request being answered.
type call struct {
	*Coordinator
	ctx     context.Context //nolint:containedctx // of the request
	forward *api.Forward
	in      kmsg.Request
	reply   func(body []byte, err error)
}

// answer encodes and sends a response.
func (c *call) answer(out kmsg.Response) {
	out.SetVersion(c.in.GetVersion())
	c.reply(out.AppendTo(nil), nil)
}

// fail tells that there is no answer for now.
func (c *call) fail(err error) { c.reply(nil, err) }

// client is who the request comes from, in the form that descriptions of groups show.
func (c *call) client() classic.Client {
	return classic.Client{ID: c.forward.ClientId, Host: "/" + c.forward.Host}
}

// through gives the function that a machine answers with: it sends the machine's answer, or that there is none if the
// group was thrown away since because a write failed.
func through[Out kmsg.Response](c *call, g *group) func(Out) {
	life := g.life
	return func(out Out) {
		switch err := life.err(); {
		case err == nil:
			c.answer(out)
		case errors.Is(err, owner.ErrTooLarge):
			c.answer(refusal(c.in, kerr.UnknownServerError.Code))
		case isLimit(err):
			c.answer(limited(c.in, err))
		default:
			c.fail(err)
		}
	}
}

// with is Coordinator.with for one request's group: if that cannot be loaded, there is no answer.
func (c *call) with(name string, fn func(g *group, now time.Time) step.Step) {
	err := c.Coordinator.with(name, func(g *group) step.Step { return fn(g, time.Now()) })
	if err != nil {
		c.fail(err)
	}
}

// say is a step that only answers.
func (c *call) say(out kmsg.Response) step.Step {
	return step.Step{Answers: []func(){func() { c.answer(out) }}}
}
