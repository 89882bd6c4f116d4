package session

import (
	"context"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore/bundle"
)

// check is a bundle that an agent was asked to read through. It is in no log: it changes nothing, and who does not hear of
// it asks somebody else.
type check struct {
	by       *agent
	bytes    uint32
	findings chan bundle.Finding // takes one
}

// CheckBundle has one of the connected agents that run jobs read a bundle through, and gives what it found: Unreadable too
// if its stream ends, or ctx does, before it has answered; an answer that comes later is for nobody. It is false if there is
// nobody to ask, or the bundle is being checked.
func (c *Cluster) CheckBundle(ctx context.Context, name id.Bundle, bytes uint32) (f bundle.Finding, asked bool) {
	t := c.tenure.Load()
	if t == nil {
		return bundle.Finding{}, false
	}
	asking := t.ask(name, bytes)
	if asking == nil {
		return bundle.Finding{}, false
	}
	defer t.unask(name, asking)
	select {
	case f = <-asking.findings:
		return f, true
	case <-ctx.Done():
		return bundle.Finding{What: "no answer: " + context.Cause(ctx).Error()}, true
	case <-t.ctx.Done():
		return bundle.Finding{What: errTenureOver.Error()}, true
	}
}

// ask asks any of the agents that can check; nil if there is none.
func (t *tenure) ask(name id.Bundle, bytes uint32) *check {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.checks[name] != nil {
		return nil
	}
	for _, a := range t.mu.agents { // in any order
		if !a.checks {
			continue
		}
		c := &check{by: a, bytes: bytes, findings: make(chan bundle.Finding, 1)}
		t.mu.checks[name] = c
		a.out.push(&api.OwnerItem{Item: &api.OwnerItem_CheckBundle{
			CheckBundle: &api.CheckBundle{Bundle: uint64(name), Bytes: bytes},
		}})
		return c
	}
	return nil
}

// unask forgets a question.
func (t *tenure) unask(name id.Bundle, c *check) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.checks[name] == c {
		delete(t.mu.checks, name)
	}
}

// answerFor ends the questions that an agent was asked. Called with mu held.
func (t *tenure) answerFor(a *agent) {
	for name, c := range t.mu.checks {
		if c.by == a {
			c.findings <- bundle.Finding{What: "the agent that was asked has gone"}
			delete(t.mu.checks, name)
		}
	}
}

var verdicts = map[api.BundleChecked_Verdict]bundle.Verdict{
	api.BundleChecked_INTACT:  bundle.Intact,
	api.BundleChecked_MISSING: bundle.Missing,
	api.BundleChecked_BROKEN:  bundle.Broken,
	api.BundleChecked_LATER:   bundle.Later,
}

// bundleChecked takes an answer, if it was this agent that was asked.
func (a *agent) bundleChecked(m *api.BundleChecked) {
	a.t.mu.Lock()
	defer a.t.mu.Unlock()
	name := id.Bundle(m.Bundle)
	c := a.t.mu.checks[name]
	if c == nil || c.by != a {
		return
	}
	read := int64(min(m.Read, 2*uint64(c.bytes))) // it goes into a counter, and parts of a bundle are read twice
	c.findings <- bundle.Finding{Verdict: verdicts[m.Verdict], What: m.What, Read: read}
	delete(a.t.mu.checks, name)
}
