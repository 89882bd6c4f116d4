package agent

import (
	"errors"
	"fmt"
	"slices"

	"github.com/freshet-io/freshet/controlplane/api"
)

// Roles of an agent. Clients are sent to agents with the first two; they use one agent for both.
const (
	RoleProduce = "produce"
	RoleFetch   = "fetch"
	RoleJobs    = "jobs" // runs background jobs
)

// Roles are all of them.
func Roles() []string { return []string{RoleProduce, RoleFetch, RoleJobs} }

var rolesOnTheWire = map[string]api.Role{
	RoleProduce: api.Role_ROLE_PRODUCE, RoleFetch: api.Role_ROLE_FETCH, RoleJobs: api.Role_ROLE_JOBS,
}

func checkRoles(roles []string) error {
	for _, r := range roles {
		if rolesOnTheWire[r] == api.Role_ROLE_UNSPECIFIED {
			return fmt.Errorf("role %q: roles are %q", r, Roles())
		}
	}
	switch {
	case len(roles) == 0:
		return errors.New("an agent needs a role")
	case slices.Contains(roles, RoleProduce) != slices.Contains(roles, RoleFetch):
		return errors.New("the roles produce and fetch go together: clients use one agent for both")
	}
	return nil
}

// hasRole tells whether the agent has a role.
func (c *Config) hasRole(role string) bool { return slices.Contains(c.Roles, role) }

func (c *Config) wireRoles() []api.Role {
	out := make([]api.Role, len(c.Roles))
	for i, r := range c.Roles {
		out[i] = rolesOnTheWire[r]
	}
	return out
}
