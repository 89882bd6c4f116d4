package group_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
)

// limit sets one limit of the state, as this owner and later ones have it.
func (w *world) limit(kind metadata.LimitKind, n int64) {
	w.t.Helper()
	w.limits = metadata.Limits{}
	w.limits[kind] = n
	w.propose(&metadata.SetLimits{Limits: w.limits})
}

// A new group beyond the limit is refused retriably in every way that makes one. Groups that exist go on, and a new one has the place of a
// deleted one.
func TestLimits_Groups(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		m := w.join("classic")
		require.Zero(t, ask[*kmsg.ConsumerGroupHeartbeatResponse](w, joining("consumer", "m"), 1).ErrorCode)
		commitPlain(w, "simple", "t", 0, 1)
		w.limit(metadata.LimitGroups, 2) // above it
		refused := func() {
			t.Helper()
			want := kerr.CoordinatorLoadInProgress.Code
			require.Equal(t, want, ask[*kmsg.JoinGroupResponse](w, (&member{group: "new"}).joinRequest(), 3).ErrorCode)
			beat := ask[*kmsg.ConsumerGroupHeartbeatResponse](w, joining("new", "m"), 1)
			require.Equal(t, want, beat.ErrorCode)
			require.Contains(t, *beat.ErrorMessage, "--max-groups")
			require.Equal(t, want, commitCode(w, commitRequest("new", "t", 0, 1), 9))
			_, in := beginTransaction(w, "x")
			in.Group = "new"
			require.Equal(t, kerr.TransactionAbortable.Code, ask[*kmsg.TxnOffsetCommitResponse](w, in, 5).Topics[0].Partitions[0].ErrorCode)
			w.read(func(s *metadata.State) { require.Equal(t, 3, s.GroupCount()) })
		}
		refused()
		require.Zero(t, m.heartbeat(w))
		require.Zero(t, ask[*kmsg.ConsumerGroupHeartbeatResponse](w, joining("consumer", "n"), 1).ErrorCode)
		commitPlain(w, "simple", "t", 1, 1)
		w.changeOwner()
		refused()
		w.propose(&metadata.DeleteGroup{Group: "simple"})
		w.propose(&metadata.DeleteGroup{Group: "consumer"})
		w.join("new")
	})
}

// Of many new groups that come at once, as many as there is room for are taken.
func TestLimits_GroupsAtOnce(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		w.limit(metadata.LimitGroups, 5)
		var answers []func() (*kmsg.JoinGroupResponse, error)
		for i := range 20 {
			answers = append(answers, send[*kmsg.JoinGroupResponse](w, (&member{group: fmt.Sprint(i)}).joinRequest(), 3))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		taken := 0
		for _, answer := range answers {
			out, err := answer()
			require.NoError(t, err)
			if out.ErrorCode == 0 {
				taken++
			} else {
				require.Equal(t, kerr.CoordinatorLoadInProgress.Code, out.ErrorCode)
			}
		}
		require.Equal(t, 5, taken)
	})
}

// A member beyond the limit of its group is refused for good, in both protocols. Members of a group above a new limit rejoin.
func TestLimits_GroupMembers(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		m := w.join("classic")
		for _, name := range []string{"a", "b"} {
			require.Zero(t, ask[*kmsg.ConsumerGroupHeartbeatResponse](w, joining("consumer", name), 1).ErrorCode)
		}
		w.limit(metadata.LimitGroupMembers, 1)
		for range 2 {
			require.Equal(t, kerr.GroupMaxSizeReached.Code, ask[*kmsg.JoinGroupResponse](w, (&member{group: "classic"}).joinRequest(), 3).ErrorCode)
			beat := ask[*kmsg.ConsumerGroupHeartbeatResponse](w, joining("consumer", "c"), 1)
			require.Equal(t, kerr.GroupMaxSizeReached.Code, beat.ErrorCode)
			require.Contains(t, *beat.ErrorMessage, "--max-group-members")
			require.Zero(t, ask[*kmsg.ConsumerGroupHeartbeatResponse](w, joining("consumer", "b"), 1).ErrorCode)
			require.Zero(t, ask[*kmsg.JoinGroupResponse](w, m.joinRequest(), 3).ErrorCode)
			w.changeOwner()
		}
	})
}

// At the limit of offsets, groups commit offsets of their partitions, and no others.
func TestLimits_Offsets(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		commitPlain(w, "g", "t", 0, 1)
		w.limit(metadata.LimitOffsetBytes, 1)
		commitPlain(w, "g", "t", 0, 2)
		require.Equal(t, kerr.InvalidCommitOffsetSize.Code, commitCode(w, commitRequest("g", "t", 1, 2), 9))
		_, in := beginTransaction(w, "x")
		code := func(version int16) int16 {
			return ask[*kmsg.TxnOffsetCommitResponse](w, in, version).Topics[0].Partitions[0].ErrorCode
		}
		in.Topics[0].Partitions[0].Metadata = kmsg.StringPtr("note")
		require.Zero(t, code(5))
		in.Topics[0].Partitions[0].Partition = 1
		require.Equal(t, kerr.TransactionAbortable.Code, code(5))
		w.limit(metadata.LimitOffsetBytes, 0)
		require.Zero(t, commitCode(w, commitRequest("g", "t", 1, 2), 9))
	})
}

// TestLimits_BoundOfMemory: at a bound of the metadata's memory, joins and commits of offsets are answered retriably. They succeed once there is
// room.
func TestLimits_BoundOfMemory(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		m := w.join("classic")
		w.owner.refuseBy(func(metadata.Command) error { return fmt.Errorf("%w of memory", owner.ErrOverloaded) })
		want := kerr.CoordinatorLoadInProgress.Code
		require.Equal(t, want, ask[*kmsg.JoinGroupResponse](w, (&member{group: "new"}).joinRequest(), 3).ErrorCode)
		beat := ask[*kmsg.ConsumerGroupHeartbeatResponse](w, joining("consumer", "m"), 1)
		require.Equal(t, want, beat.ErrorCode)
		require.Contains(t, *beat.ErrorMessage, "bound of memory")
		require.Equal(t, want, commitCode(w, commitRequest("simple", "t", 0, 1), 9))
		_, in := beginTransaction(w, "y")
		require.Equal(t, want, ask[*kmsg.TxnOffsetCommitResponse](w, in, 5).Topics[0].Partitions[0].ErrorCode)
		require.Zero(t, m.heartbeat(w))
		w.owner.refuseBy(nil)
		w.join("new")
		require.Zero(t, ask[*kmsg.ConsumerGroupHeartbeatResponse](w, joining("consumer", "m"), 1).ErrorCode)
		commitPlain(w, "simple", "t", 0, 1)
		require.Zero(t, ask[*kmsg.TxnOffsetCommitResponse](w, in, 5).Topics[0].Partitions[0].ErrorCode)
	})
}
