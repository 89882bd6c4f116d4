package session_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore/bundle"
)

// checker hears of bundles to be checked beside what an agent hears of.
type checker struct {
	*agent
	asked chan id.Bundle
}

func (c *checker) OnCheckBundle(name id.Bundle, bytes uint32) {
	require.EqualValues(c.w.t, 100, bytes)
	c.asked <- name
}

func (w *world) checker(roles ...api.Role) *checker {
	c := &checker{asked: make(chan id.Bundle, 8)}
	w.agent(func(cfg *client.Config) {
		c.agent = cfg.Handler.(*agent)
		cfg.Handler, cfg.Roles = c, roles
	})
	c.opened()
	return c
}

// told is what CheckBundle gave.
type told struct {
	finding bundle.Finding
	asked   bool
}

// check asks for a bundle of 100 bytes.
func (n *node) check(ctx context.Context, name id.Bundle) <-chan told {
	answer := make(chan told, 1)
	go func() {
		f, asked := n.sessions.CheckBundle(ctx, name, 100)
		answer <- told{f, asked}
	}()
	return answer
}

func TestChecks_AreAskedAndAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start("a")
		other := w.runner() // of an earlier version: it cannot be asked
		other.opened()
		idle := w.checker(api.Role_ROLE_PRODUCE)
		require.Equal(t, told{}, <-n.check(t.Context(), 1), "nobody runs jobs")

		c := w.checker(api.Role_ROLE_PRODUCE, api.Role_ROLE_JOBS)
		for _, f := range []bundle.Finding{
			{Verdict: bundle.Intact, Read: 100},
			{Verdict: bundle.Missing, What: "missing"},
			{Verdict: bundle.Broken, What: "torn", Read: 7},
			{Verdict: bundle.Later, What: "of a later version"},
			{What: "the store is away"},
		} {
			answer := n.check(t.Context(), 1)
			require.Equal(t, id.Bundle(1), <-c.asked)
			require.Equal(t, told{}, <-n.check(t.Context(), 1), "it is being checked")
			c.BundleChecked(2, bundle.Finding{Verdict: bundle.Broken}) // nobody has asked
			other.BundleChecked(1, bundle.Finding{Verdict: bundle.Broken})
			synctest.Wait()
			c.BundleChecked(1, f)
			require.Equal(t, told{f, true}, <-answer)
			c.BundleChecked(1, bundle.Finding{Verdict: bundle.Broken}) // twice
			synctest.Wait()
		}
		require.Empty(t, idle.asked)
		c.leave()
		idle.leave()
		other.leave()
		w.stop(n)
	})
}

// Nobody waits for an agent that has gone, that says nothing, or whose owner is another by now.
func TestChecks_WithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start("a")
		c := w.checker(api.Role_ROLE_JOBS)
		answer := n.check(t.Context(), 1)
		<-c.asked
		c.leave()
		got := <-answer
		require.True(t, got.asked)
		require.Equal(t, bundle.Unreadable, got.finding.Verdict)
		require.Contains(t, got.finding.What, "gone")

		c = w.checker(api.Role_ROLE_JOBS)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		got = <-n.check(ctx, 1)
		require.True(t, got.asked)
		require.Equal(t, bundle.Unreadable, got.finding.Verdict)
		<-c.asked
		c.BundleChecked(1, bundle.Finding{Verdict: bundle.Broken}) // too late
		synctest.Wait()

		answer = n.check(t.Context(), 1)
		<-c.asked
		c.leave()
		w.stop(n)
		require.Equal(t, bundle.Unreadable, (<-answer).finding.Verdict)
		require.Equal(t, told{}, <-n.check(t.Context(), 1), "no owner")
	})
}

// An agent that counts wrongly spoils no counter, which would end the owner.
func TestChecks_MoreReadThanThereIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start("a")
		c := w.checker(api.Role_ROLE_JOBS)
		answer := n.check(t.Context(), 1)
		<-c.asked
		c.BundleChecked(1, bundle.Finding{Verdict: bundle.Intact, Read: -1})
		require.EqualValues(t, 2*100, (<-answer).finding.Read)
		c.leave()
		w.stop(n)
	})
}
