package etcdlog_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/metalog/etcdlog"
)

func TestNow(t *testing.T) {
	client := startEtcd(t, nil)
	before := time.Now().Truncate(time.Second)
	at, err := etcdlog.Now(t.Context(), client, nil)
	require.NoError(t, err)
	require.WithinRange(t, at, before, time.Now())

	client.SetEndpoints("http://127.0.0.1:1", client.Endpoints()[0])
	_, err = etcdlog.Now(t.Context(), client, nil)
	require.NoError(t, err, "one member answers")
	client.SetEndpoints("127.0.0.1:1", "unix://nowhere")
	_, err = etcdlog.Now(t.Context(), client, nil)
	require.Error(t, err)
	client.SetEndpoints()
	_, err = etcdlog.Now(t.Context(), client, nil)
	require.ErrorContains(t, err, "no endpoint")
}
