package agent

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckRoles(t *testing.T) {
	for _, roles := range [][]string{Roles(), {RoleJobs}, {RoleFetch, RoleProduce}} {
		require.NoError(t, checkRoles(roles))
	}
	for want, roles := range map[string][]string{
		"needs a role": {}, `role "job"`: {"job"}, "go together": {RoleProduce, RoleJobs},
	} {
		require.ErrorContains(t, checkRoles(roles), want)
	}
}
