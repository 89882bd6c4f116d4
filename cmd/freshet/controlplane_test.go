package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/freshet-io/freshet/metadata/metalog/etcdlog"
)

// A replica that starts before etcd waits: only the registry reports that etcd does not answer.
func TestControlSettings_StartsWithoutEtcd(t *testing.T) {
	var s controlSettings
	s.etcd.Endpoints = []string{"127.0.0.1:1"}
	client, err := etcdlog.NewClient(s.etcd)
	require.NoError(t, err)
	defer client.Close()
	s.Etcd = client
	core, logged := observer.New(zap.DebugLevel)
	require.NoError(t, s.checkEtcd(t.Context(), zap.New(core)))
	require.Empty(t, logged.All())
}
