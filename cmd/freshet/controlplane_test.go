package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/freshet-io/freshet/metadata/metalog/etcdlog"
)

// A replica that starts before etcd waits: only the first rounds of controlplane.members report that etcd does not answer.
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

func TestKeysOf(t *testing.T) {
	for _, tc := range []struct {
		given, clusters []string
		want            map[string][]string
		fault           string
	}{
		{given: []string{"k", "l"}, clusters: []string{"main"}, want: map[string][]string{"main": {"k", "l"}}},
		{given: []string{"main=k"}, clusters: []string{"main"}, want: map[string][]string{"main": {"k"}}},
		{given: []string{"a2V5Cg=="}, clusters: []string{"main"}, want: map[string][]string{"main": {"a2V5Cg=="}}},
		{given: []string{"main=", "other=k"}, clusters: []string{"main"}, want: map[string][]string{"main": {"main=", "other=k"}}},
		{given: []string{"a=k", "b=l", "a=m=n"}, clusters: []string{"a", "b"}, want: map[string][]string{"a": {"k", "m=n"}, "b": {"l"}}},
		{given: []string{"a=k", "l"}, clusters: []string{"a", "b"}, fault: "item 2 opens no virtual cluster of --virtual-cluster: with several of them write each key as NAME=KEY"},
		{given: []string{"a=k", "c=l"}, clusters: []string{"a", "b"}, fault: "item 2 opens no virtual cluster of --virtual-cluster: with several of them write each key as NAME=KEY"},
		{given: []string{"a=k"}, clusters: []string{"a", "b"}, want: map[string][]string{"a": {"k"}}}, // Config.Validate refuses b without a key
		{clusters: []string{"main"}, want: map[string][]string{}},
	} {
		got, err := keysOf(tc.given, tc.clusters)
		if tc.fault != "" {
			require.EqualError(t, err, tc.fault)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, tc.want, got)
	}
}
