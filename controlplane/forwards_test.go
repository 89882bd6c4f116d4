package controlplane

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/admin"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/group"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/controlplane/txn"
	"github.com/freshet-io/freshet/kafkaproto"
)

// Whatever agents forward, one part answers.
func TestForwards_AnswerWhatIsForwarded(t *testing.T) {
	f := newForwards(nil)
	f.handle(new(admin.APIs))
	f.handle(new(txn.Coordinator))
	f.start(new(group.Coordinator))
	for _, entry := range kafkaproto.Table() {
		require.Equal(t, entry.By == kafkaproto.ByControlPlane, f.parts[entry.Key] != nil, entry.Name)
	}
}

func TestForwards_RefuseTwoPartsForOneAPI(t *testing.T) {
	f := newForwards(nil)
	f.handle(new(admin.APIs))
	require.Panics(t, func() { f.handle(new(admin.APIs)) })
}

func TestForwards_RefuseWhatNobodyAnswers(t *testing.T) {
	for _, key := range []int32{0, -1, 1 << 16, 1<<16 + 19} {
		var err error
		newForwards(nil).Start(context.Background(), &api.Forward{ApiKey: key}, func(_ []byte, e error) { err = e })
		require.ErrorIs(t, err, session.ErrBadRequest)
	}
}
