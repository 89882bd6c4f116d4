package group

import (
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/group/step"
)

// gather answers a request about several groups when the last of them is done. Safe for concurrent use.
type gather struct {
	c       *call
	out     kmsg.Response
	left    atomic.Int64
	failure atomic.Pointer[error]
}

// gather begins one part, the caller's own: its done(nil) says that no more are added.
func (c *call) gather(out kmsg.Response) *gather {
	w := &gather{c: c, out: out}
	w.left.Store(1)
	return w
}

// add begins a part.
func (w *gather) add() { w.left.Add(1) }

// done ends a part. With an error there is no answer.
func (w *gather) done(err error) {
	if err != nil {
		w.failure.Store(&err)
	}
	if w.left.Add(-1) > 0 {
		return
	}
	if failure := w.failure.Load(); failure != nil {
		w.c.fail(*failure)
		return
	}
	w.c.answer(w.out)
}

// ask looks at a group. The part is done when what was seen is in the log: it may rest on a write that is on its way.
// An error means that the group could not be loaded and that fn was not called.
func (w *gather) ask(name string, fn func(g *group)) error {
	w.add()
	err := w.c.Coordinator.with(name, func(g *group) step.Step {
		fn(g)
		life := g.life
		return step.Step{Answers: []func(){func() { w.done(life.err()) }}}
	})
	if err != nil {
		w.done(nil)
	}
	return err
}
