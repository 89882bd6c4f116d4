package httpapi

import (
	"net/http"

	"github.com/freshet-io/freshet/controlplane/registry"
)

// access is the right that a route requires.
type access int

const (
	public   access = iota + 1 // no authentication
	operator                   // an operator key; API tokens and sessions are refused
	session                    // a session, with or without a team; API tokens are refused
	readOnly
	member
	admin
	owner
)

// roleOf has the role of each access in the team of the path.
var roleOf = map[access]registry.Role{readOnly: registry.ReadOnly, member: registry.Ordinary, admin: registry.Admin, owner: registry.Owner}

// security returns the security requirement of OpenAPI: one of the schemes.
func (a access) security() []map[string][]string {
	switch a {
	case public:
		return nil
	case operator:
		return []map[string][]string{{"operator": {}}}
	case session:
		return []map[string][]string{{"session": {}}}
	default:
		return []map[string][]string{{"token": {}}, {"session": {}}}
	}
}

// route is a row of the table of routes.
type route struct {
	id, method, path string
	access           access
	status           int // of success
	summary          string
	description      string
}

// creates reports whether success adds records to etcd. A login does not count: sessions are few, and a user logs in before
// a deletion.
func (r route) creates() bool { return r.status == http.StatusCreated && r.id != "log-in" }

// createsSecret reports whether success creates an agent key or an API token, which may replace a leaked one. A team has at most registry.MaxAgentKeys and registry.MaxTokens.
func (r route) createsSecret() bool { return r.id == "create-agent-key" || r.id == "create-token" }

// describe returns the description with the required role.
func (r route) describe() string {
	switch r.access {
	case public:
		return r.description + " Needs no authentication."
	case operator:
		return r.description + " Needs an operator key."
	case session:
		return r.description + " Needs a session."
	default:
		return r.description + " Required role: " + string(roleOf[r.access]) + "."
	}
}

const (
	teamPath    = "/v1/teams/{team}"
	clusterPath = teamPath + "/clusters/{cluster}"
	// anyClusterPath is the path of a cluster for operators.
	anyClusterPath = "/v1/clusters/{cluster}"
)

// routes is the table of routes. A path with {team} concerns the objects of that team alone.
var routes = []route{
	{"get-openapi", http.MethodGet, "/v1/openapi.json", public, http.StatusOK, "Get this description", "Returns the OpenAPI document of the API."},

	{
		"create-team", http.MethodPost, "/v1/teams", operator, http.StatusCreated, "Create a team",
		"Creates a team, its owner's account if there is none with the e-mail address, and an API token of the owner. Only this answer has the token.",
	},
	{
		"approve-team", http.MethodPost, teamPath + "/approve", operator, http.StatusOK, "Approve a team",
		"Lifts the bounds of a team that a sign-up made: it then has the bounds of a team that an operator creates, and its clusters do not expire.",
	},
	{
		"list-all-clusters", http.MethodGet, "/v1/clusters", operator, http.StatusOK, "List the clusters of all teams",
		"Returns the virtual clusters of all teams in order of their IDs, deleted ones included, with the names that their tenants gave them.",
	},
	{
		"limit-cluster", http.MethodPatch, anyClusterPath + "/limits", operator, http.StatusOK, "Change limits of a cluster",
		"Changes the limits of a virtual cluster that the request has. Control planes apply them within about 10 s. If memory_bytes, log_bytes or warm change, they restart the virtual cluster, which delays its clients.",
	},
	{
		"block-cluster", http.MethodPost, anyClusterPath + "/block", operator, http.StatusOK, "Suspend a cluster of a team",
		"Suspends a virtual cluster so that its team cannot resume it. The team can delete it, and one that it brings back is suspended.",
	},
	{
		"unblock-cluster", http.MethodPost, anyClusterPath + "/unblock", operator, http.StatusOK, "Resume a cluster of a team",
		"Makes a virtual cluster active again that an operator suspended. One that its team had suspended before stays suspended, and a deleted one stays deleted. An expired demo is not resumed.",
	},
	{
		"sign-up", http.MethodPost, "/v1/signup", public, http.StatusCreated, "Sign up",
		"Creates an account with a team, a virtual cluster and an agent key, if --signup is open. The cluster of a demo is deleted after 24 h. If an earlier request was interrupted, or its answer was lost, the " +
			"same request with the same password gets another agent key. Only this answer has the key. With --smtp-url, the answer is 202, and a mail has the token of " +
			"/v1/signup/verify, if the address has no account.",
	},
	{
		"verify-sign-up", http.MethodPost, "/v1/signup/verify", public, http.StatusCreated, "Confirm a sign-up",
		"Creates the account of a sign-up whose mail has the token, within 24 h, with what a sign-up without a mail creates. Only this answer has the agent key. If the answer is lost, log in.",
	},
	{
		"request-password-reset", http.MethodPost, "/v1/password-resets", public, http.StatusAccepted, "Request a reset of a password",
		"Sends a mail with a token to the address, if it has an account.",
	},
	{
		"reset-password", http.MethodPut, "/v1/password-resets", public, http.StatusNoContent, "Reset a password",
		"Replaces the password of the account whose mail has the token, within an hour, and verifies its e-mail address. All sessions end. API tokens stay.",
	},
	{
		"sign-up-invited", http.MethodPost, teamPath + "/invitations/signup", public, http.StatusCreated, "Sign up by an invitation",
		"Creates the account of an invitation as a member of the team, if --signup is invite-only or open. An account that exists accepts the invitation by a session.",
	},
	{
		"log-in", http.MethodPost, "/v1/sessions", public, http.StatusCreated, "Log in",
		"Starts a session of an account, for 14 days. An account has at most 20; a further one ends the oldest. Only this answer has the secret.",
	},
	{
		"change-password", http.MethodPut, "/v1/account/password", session, http.StatusNoContent, "Change the password",
		"Replaces the password of the account. All sessions but that of the request end. API tokens stay.",
	},
	{"log-out", http.MethodDelete, "/v1/sessions/current", session, http.StatusNoContent, "Log out", "Ends the session of the request."},
	{"get-team", http.MethodGet, teamPath, readOnly, http.StatusOK, "Get a team", "Returns the team."},
	{"rename-team", http.MethodPatch, teamPath, owner, http.StatusOK, "Rename a team", "Changes the name of the team."},

	{"list-members", http.MethodGet, teamPath + "/members", readOnly, http.StatusOK, "List members", "Returns the members in order of their account IDs."},
	{
		"set-role", http.MethodPatch, teamPath + "/members/{account}", admin, http.StatusOK, "Change the role of a member",
		"Changes the role of a member. Neither the earlier nor the new role may be above the caller's. The last owner stays an owner.",
	},
	{
		"remove-member", http.MethodDelete, teamPath + "/members/{account}", admin, http.StatusNoContent, "Remove a member",
		"Removes a member and the member's API tokens. The member's role may not be above the caller's. The last owner stays.",
	},

	{
		"leave-team", http.MethodDelete, teamPath + "/membership", readOnly, http.StatusNoContent, "Leave a team",
		"Removes the caller from the team, with the caller's API tokens. An API token needs the role of its member. The last owner stays.",
	},

	{"list-invitations", http.MethodGet, teamPath + "/invitations", admin, http.StatusOK, "List invitations", "Returns the open invitations in order of their IDs."},
	{
		"create-invitation", http.MethodPost, teamPath + "/invitations", admin, http.StatusCreated, "Invite into a team",
		"Creates an invitation for an e-mail address, in place of an earlier one. The role may not be above the caller's. Only this answer has the secret.",
	},
	{"revoke-invitation", http.MethodDelete, teamPath + "/invitations/{invitation}", admin, http.StatusNoContent, "Revoke an invitation", "Deletes an invitation."},
	{
		"accept-invitation", http.MethodPost, teamPath + "/invitations/accept", session, http.StatusOK, "Accept an invitation",
		"Adds the account of the session to the team. The account has the invited e-mail address.",
	},

	{"list-clusters", http.MethodGet, teamPath + "/clusters", readOnly, http.StatusOK, "List clusters", "Returns the virtual clusters in order of their names, deleted ones included."},
	{
		"create-cluster", http.MethodPost, teamPath + "/clusters", member, http.StatusCreated, "Create a cluster",
		"Creates a virtual cluster. If an earlier request with this name was interrupted, the same request completes the cluster.",
	},
	{"get-cluster", http.MethodGet, clusterPath, readOnly, http.StatusOK, "Get a cluster", "Returns a virtual cluster."},
	{"rename-cluster", http.MethodPatch, clusterPath, member, http.StatusOK, "Rename a cluster", "Changes the name of a virtual cluster. Its ID stays, and so do its agent keys."},
	{
		"suspend-cluster", http.MethodPost, clusterPath + "/suspend", admin, http.StatusOK, "Suspend a cluster",
		"Stops a virtual cluster, which keeps everything. Its agents wait, and refuse clients, until it is resumed.",
	},
	{"resume-cluster", http.MethodPost, clusterPath + "/resume", admin, http.StatusOK, "Resume a suspended cluster", "Makes a suspended virtual cluster active again. Its agents go on without a restart."},
	{
		"delete-cluster", http.MethodDelete, clusterPath, admin, http.StatusOK, "Delete a cluster",
		"Marks a virtual cluster as deleted and stops it. For 24 h it can be brought back, keeps its name and counts toward the bound of the team. Then it is removed for good. " +
			"The answer names the objects that stay in the bucket of the agents.",
	},
	{
		"undelete-cluster", http.MethodPost, clusterPath + "/undelete", admin, http.StatusOK, "Bring back a deleted cluster",
		"Makes a deleted virtual cluster active again. One that is not deleted stays as it is.",
	},
	{
		"purge-cluster", http.MethodPost, clusterPath + "/purge", admin, http.StatusAccepted, "Purge a deleted cluster",
		"Removes a deleted virtual cluster for good, within seconds, with its metadata, keys and name. The objects in the bucket of the agents stay.",
	},

	{"list-agent-keys", http.MethodGet, clusterPath + "/agent-keys", readOnly, http.StatusOK, "List agent keys", "Returns the agent keys of a cluster in order of their IDs, without their secrets."},
	{
		"create-agent-key", http.MethodPost, clusterPath + "/agent-keys", member, http.StatusCreated, "Create an agent key",
		"Creates an agent key of a cluster. Only this answer has the key.",
	},
	{
		"revoke-agent-key", http.MethodDelete, clusterPath + "/agent-keys/{key}", member, http.StatusNoContent, "Revoke an agent key",
		"Deletes an agent key. Control planes then end the streams of its agents.",
	},

	{
		"list-tokens", http.MethodGet, teamPath + "/tokens", readOnly, http.StatusOK, "List API tokens",
		"Returns the API tokens of the caller in order of their IDs, without their secrets. Admins and owners get the tokens of all members, by account.",
	},
	{
		"create-token", http.MethodPost, teamPath + "/tokens", readOnly, http.StatusCreated, "Create an API token",
		"Creates an API token of the caller. Its role may not be above the caller's. With an API token that expires, the new one expires no later. Only this answer has the token.",
	},
	{
		"revoke-token", http.MethodDelete, teamPath + "/tokens/{token}", readOnly, http.StatusNoContent, "Revoke an API token",
		"Deletes an API token of the caller. Admins and owners can delete the tokens of all members.",
	},

	{"list-audit", http.MethodGet, teamPath + "/audit", admin, http.StatusOK, "List audit entries", "Returns the newest 1,000 changes of the team, the newest first, or 100 of a team that no operator has approved."},
}
