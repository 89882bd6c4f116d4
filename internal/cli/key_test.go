package cli_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/accesskey"
	"github.com/freshet-io/freshet/internal/cli"
)

func TestCreateKey(t *testing.T) {
	const clusterID = "0MP4Kxjfr8KpC_OLjGQtgg"
	var out bytes.Buffer
	require.NoError(t, cli.CreateKey(cli.KeyConfig{Kind: cli.AgentKey, ClusterID: clusterID}, cli.Streams{Out: &out}))
	got, err := accesskey.ClusterOf(accesskey.AgentPrefix, strings.TrimSuffix(out.String(), "\n"))
	require.NoError(t, err)
	require.Equal(t, clusterID, got)

	out.Reset()
	require.NoError(t, cli.CreateKey(cli.KeyConfig{Kind: cli.AgentKey, ClusterID: clusterID}, cli.Streams{Out: &out, Format: cli.FormatJSON}))
	var made struct {
		Key    string
		SHA256 string
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &made))
	require.Equal(t, accesskey.HashOf(made.Key).Digits(), made.SHA256)

	out.Reset()
	require.NoError(t, cli.CreateKey(cli.KeyConfig{Kind: cli.OperatorKey}, cli.Streams{Out: &out}))
	require.Regexp(t, `^fso_\w{50}\n$`, out.String())

	var usage *cli.UsageError
	require.ErrorAs(t, cli.CreateKey(cli.KeyConfig{Kind: cli.OperatorKey, ClusterID: clusterID}, cli.Streams{}), &usage)
	require.ErrorAs(t, cli.CreateKey(cli.KeyConfig{Kind: cli.ReadOnlyKey}, cli.Streams{}), &usage)
	require.EqualError(t, cli.CreateKey(cli.KeyConfig{Kind: cli.AgentKey, ClusterID: "main"}, cli.Streams{}),
		`--cluster-id "main" is no cluster id: write the 22 characters that `+"`freshet cluster list` prints")
}
