package httpapi

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/registry"
	"github.com/freshet-io/freshet/internal/accesskey"
)

// TestLeaveTeam: members leave by themselves, and their tokens and roles end at once. The last owner stays, and a token with a lower role than its
// member's does not take the member away.
func TestLeaveTeam(t *testing.T) {
	f := open(t)
	leave := request{method: http.MethodDelete, path: "/v1/teams/" + f.team + "/membership"}
	read := request{method: http.MethodGet, path: "/v1/teams/" + f.team}
	owner, reader := f.accounts[registry.Owner], f.accounts[registry.ReadOnly]
	a := f.do(t, leave.bearer(owner.token))
	require.Equal(t, http.StatusConflict, a.status, a.text)
	require.Contains(t, a.text, "the team needs another owner first")
	require.Equal(t, http.StatusOK, f.do(t, read.bearer(owner.token)).status)

	ordinary := f.accounts[registry.Ordinary]
	lower := accesskey.NewToken()
	f.newToken(t, ordinary, registry.ReadOnly, lower, time.Time{})
	require.Equal(t, http.StatusForbidden, f.do(t, leave.bearer(lower)).status)
	require.Equal(t, http.StatusOK, f.do(t, read.bearer(lower)).status)

	require.Equal(t, http.StatusNoContent, f.do(t, leave.cookie(reader.session)).status)
	require.Equal(t, http.StatusUnauthorized, f.do(t, read.bearer(reader.token)).status)
	require.Equal(t, http.StatusNotFound, f.do(t, read.cookie(reader.session)).status)

	require.NoError(t, f.reg.SetRole(t.Context(), by, f.team, ordinary.id, registry.Owner))
	require.Equal(t, http.StatusNoContent, f.do(t, leave.bearer(owner.token)).status)
	a = f.do(t, read.bearer(ordinary.token))
	require.Equal(t, http.StatusOK, a.status, a.text)
}
