package replica_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A replica that cannot reach the log says for a lease's time who owned it, and then that it does not know: agents take the
// first answer that names an owner, and would never find the one that came since.
func TestReplica_ForgetsAnOwnerItCannotLookFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		a := w.start("a")
		w.waitOwner(a, time.Second)
		b, c := w.start("b"), w.start("c")
		located := func(n *node) string {
			owner, _ := n.Located()
			return owner.Replica
		}
		time.Sleep(time.Minute)
		for _, n := range []*node{a, b, c} {
			require.Equal(t, "a", located(n), "as long as it lasts")
		}
		b.net.CutOff()
		time.Sleep(time.Second)
		require.Equal(t, "a", located(b))
		w.stop(a)
		w.waitOwner(c, 10*time.Second)
		w.waitFor("the owner to be forgotten", 10*time.Second, func() bool { return located(b) == "" })
		require.Equal(t, "c", located(c))
		b.net.SetFaults(nil)
		w.waitFor("the new owner to be seen", time.Minute, func() bool { return located(b) == "c" })
		w.stop(b, c)
	})
}
