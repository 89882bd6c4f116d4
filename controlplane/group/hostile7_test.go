package group_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestHostile_ConversionsAreBounded: a classic member is several times as large in a group of the consumer protocol, which also has the names of its
// topics one by one. Conversions of classic groups exceed the bound of all groups.
func TestHostile_ConversionsAreBounded(t *testing.T) {
	inWorld(t, quick, func(w *world) {
		w.memberBytes = 1 << 20
		w.changeOwner()
		s := kmsg.NewConsumerMemberMetadata()
		for i := range 40_000 {
			s.Topics = append(s.Topics, fmt.Sprintf("%03s", string([]byte{'a' + byte(i%26), 'a' + byte(i/26%26), '0' + byte(i/676)})))
		}
		metadata := s.AppendTo(nil)
		converted, consumerBytes := 0, 0
		for i := range 4 {
			group := fmt.Sprint("g", i)
			in := joinOf(group, 1, 1)
			in.Protocols[0].Metadata = metadata
			require.Zero(t, ask[*kmsg.JoinGroupResponse](w, in, 3).ErrorCode)
		}
		for i := range 4 {
			group := fmt.Sprint("g", i)
			if ask[*kmsg.ConsumerGroupHeartbeatResponse](w, joining(group, "m"), 1).ErrorCode == 0 {
				require.Equal(t, "consumer", w.groupType(group))
				converted++
				consumerBytes += len(metadata) + 40_000*(3+16)
			}
		}
		require.LessOrEqual(t, consumerBytes, 1<<20, "%d groups of %d bytes of metadata each were converted", converted, len(metadata))
	})
}
