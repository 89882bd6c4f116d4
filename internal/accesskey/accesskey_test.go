package accesskey_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/accesskey"
	"github.com/freshet-io/freshet/metadata/id"
)

func TestNewAgent(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		clusterID := id.NewCluster() // many hold underscores
		key, err := accesskey.New(accesskey.AgentPrefix, clusterID)
		require.NoError(t, err)
		require.Len(t, key, 77)
		require.Regexp(t, `^fsk_[A-Za-z0-9_-]{22}_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}$`, key)
		got, err := accesskey.ClusterOf(accesskey.AgentPrefix, key)
		require.NoError(t, err)
		require.Equal(t, clusterID, got)
		require.False(t, seen[key])
		seen[key] = true
	}
	for _, clusterID := range []string{"", "main", "-MP4Kxjfr8KpC_OLjGQtgg", "0MP4Kxjfr8KpC/OLjGQtgg"} {
		_, err := accesskey.New(accesskey.AgentPrefix, clusterID)
		require.ErrorContains(t, err, "is no cluster id")
	}
}

// The key is fixed: programs and scanners outside rely on its form.
const fixed = "fsk_0MP4Kxjfr8KpC_OLjGQtgg_0000000000000000000000000000000000000000009_"

func TestClusterOf_FixedForm(t *testing.T) {
	got, err := accesskey.ClusterOf(accesskey.AgentPrefix, fixed+"4z3hSp")
	require.NoError(t, err)
	require.Equal(t, "0MP4Kxjfr8KpC_OLjGQtgg", got)
}

func TestClusterOf_Refuses(t *testing.T) {
	key, err := accesskey.New(accesskey.AgentPrefix, id.NewCluster())
	require.NoError(t, err)
	for i := len(accesskey.AgentPrefix); i < len(key); i++ { // a mistyped character
		other := byte('x')
		if key[i] == other {
			other = 'y'
		}
		_, err := accesskey.ClusterOf(accesskey.AgentPrefix, key[:i]+string(other)+key[i+1:])
		require.ErrorIs(t, err, accesskey.ErrMalformed, i)
	}
	for length := len(accesskey.AgentPrefix); length < len(key); length++ {
		_, err := accesskey.ClusterOf(accesskey.AgentPrefix, key[:length])
		require.ErrorIs(t, err, accesskey.ErrMalformed, length)
	}
	_, err = accesskey.ClusterOf(accesskey.AgentPrefix, key+"\n")
	require.ErrorIs(t, err, accesskey.ErrMalformed)
	require.NotContains(t, err.Error(), key[:20])
	require.Contains(t, err.Error(), key[:12]+"...")
	_, err = accesskey.ClusterOf(accesskey.AgentPrefix, strings.ToLower(key[:70])+key[70:])
	require.ErrorIs(t, err, accesskey.ErrMalformed)

	for _, free := range []string{"", "k", "FSK_abc", "Rk9PQkFSCg=="} {
		got, err := accesskey.ClusterOf(accesskey.AgentPrefix, free)
		require.NoError(t, err)
		require.Empty(t, got)
	}
}

func TestClusterOf_Kinds(t *testing.T) {
	operator, err := accesskey.New(accesskey.OperatorPrefix, "")
	require.NoError(t, err)
	require.Len(t, operator, 54)
	_, err = accesskey.ClusterOf(accesskey.OperatorPrefix, operator)
	require.NoError(t, err)
	_, err = accesskey.ClusterOf(accesskey.AgentPrefix, operator)
	require.ErrorIs(t, err, accesskey.ErrOtherKind)
	require.NotContains(t, err.Error(), operator[4:8], "the secret begins behind the prefix")
	clusterID := id.NewCluster()
	readOnly, err := accesskey.New(accesskey.ReadOnlyPrefix, clusterID)
	require.NoError(t, err)
	got, err := accesskey.ClusterOf(accesskey.ReadOnlyPrefix, readOnly)
	require.NoError(t, err)
	require.Equal(t, clusterID, got)
	_, err = accesskey.ClusterOf(accesskey.AgentPrefix, readOnly)
	require.ErrorIs(t, err, accesskey.ErrOtherKind)
}

func TestNewToken(t *testing.T) {
	token := accesskey.NewToken()
	require.Regexp(t, `^fst_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}$`, token)
	require.NotEqual(t, token, accesskey.NewToken())
	require.True(t, accesskey.ValidToken(token))
	_, err := accesskey.ClusterOf(accesskey.OperatorPrefix, token)
	require.ErrorIs(t, err, accesskey.ErrOtherKind)
	require.NotContains(t, err.Error(), token[4:8], "the secret begins behind the prefix")
}

// TestValidToken_FixedForm has a fixed token: programs and scanners outside rely on its form.
func TestValidToken_FixedForm(t *testing.T) {
	const fixed = "fst_0000000000000000000000000000000000000000009_48c4Ds"
	require.True(t, accesskey.ValidToken(fixed))
	operator, err := accesskey.New(accesskey.OperatorPrefix, "")
	require.NoError(t, err)
	for _, other := range []string{"", "fst_", "token", fixed[:53], fixed + "\n", "fso_" + fixed[4:], operator, strings.Replace(fixed, "9", "8", 1)} {
		require.False(t, accesskey.ValidToken(other), other)
	}
}

func TestHash_String(t *testing.T) {
	require.Equal(t, "2c70e12b", accesskey.HashOf("key").String())
}
