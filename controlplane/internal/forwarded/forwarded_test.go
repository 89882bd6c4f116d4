package forwarded_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/internal/forwarded"
	"github.com/freshet-io/freshet/controlplane/session"
)

var errAway = errors.New("away")

// part answers EndTxn with its producer id as the code.
type part struct{ err error }

func (p *part) endTxn(_ context.Context, in *kmsg.EndTxnRequest) (*kmsg.EndTxnResponse, error) {
	out := kmsg.NewPtrEndTxnResponse()
	out.ErrorCode = int16(in.ProducerID)
	return out, p.err
}

var handlers = forwarded.Handlers[*part]{int16(kmsg.EndTxn): forwarded.On((*part).endTxn)}

func TestHandlers_AnswerInTheRequestsVersion(t *testing.T) {
	require.Equal(t, []int16{26}, handlers.Keys())
	for version := range int16(5) {
		in := kmsg.NewPtrEndTxnRequest()
		in.SetVersion(version)
		in.ProducerID = 7
		body, err := handlers.Handle(t.Context(), &part{}, &api.Forward{ApiKey: 26, ApiVersion: int32(version), Body: in.AppendTo(nil)})
		require.NoError(t, err)
		out := kmsg.NewPtrEndTxnResponse()
		out.SetVersion(version)
		require.NoError(t, out.ReadFrom(body))
		require.EqualValues(t, 7, out.ErrorCode)
	}
}

func TestHandlers_Refuse(t *testing.T) {
	for _, f := range []*api.Forward{
		{ApiKey: 24},
		{ApiKey: -1},
		{ApiKey: 1<<16 + 26},
		{ApiKey: 26, ApiVersion: -1},
		{ApiKey: 26, ApiVersion: 99},
		{ApiKey: 26, Body: []byte{1}},
	} {
		_, err := handlers.Handle(t.Context(), &part{}, f)
		require.ErrorIs(t, err, session.ErrBadRequest, f)
	}
	in := kmsg.NewPtrEndTxnRequest()
	_, err := handlers.Handle(t.Context(), &part{errAway}, &api.Forward{ApiKey: 26, Body: in.AppendTo(nil)})
	require.ErrorIs(t, err, errAway)
	require.NotErrorIs(t, err, session.ErrBadRequest)
}
