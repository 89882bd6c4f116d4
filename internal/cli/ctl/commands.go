package ctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/freshet-io/freshet/controlplane/registry/httpapi"
	"github.com/freshet-io/freshet/internal/cli"
)

// named is the body of requests that name an object.
type named struct {
	Name string `json:"name"`
}

// removed is the JSON of a deletion.
type removed struct {
	ID string `json:"id"`
}

// CreateTeam creates a team with an operator key, and writes the settings of its owner for the environment.
func CreateTeam(ctx context.Context, c Config, name, email string, s cli.Streams) error {
	a, err := c.operator()
	if err != nil {
		return err
	}
	var made httpapi.OwnedTeam
	body := struct {
		Name  string `json:"name"`
		Email string `json:"email"`
	}{name, email}
	if err := a.call(ctx, http.MethodPost, "/v1/teams", body, &made); err != nil {
		return err
	}
	return show(s, made, "FRESHET_TEAM=%s\nFRESHET_TOKEN=%s", made.Team.ID, made.Token.Secret)
}

// ApproveTeam lifts the bounds of the team of a sign-up, with an operator key.
func ApproveTeam(ctx context.Context, c Config, id string, s cli.Streams) error {
	a, err := c.operator()
	if err != nil {
		return err
	}
	var t httpapi.Team
	if err := a.call(ctx, http.MethodPost, "/v1/teams/"+url.PathEscape(id)+"/approve", nil, &t); err != nil {
		return err
	}
	return show(s, t, "team %s with the name %s is approved", t.ID, t.Name)
}

// GetTeam writes the team.
func GetTeam(ctx context.Context, c Config, s cli.Streams) error {
	return team(ctx, c, http.MethodGet, nil, s)
}

// RenameTeam changes the name of the team.
func RenameTeam(ctx context.Context, c Config, name string, s cli.Streams) error {
	return team(ctx, c, http.MethodPatch, named{name}, s)
}

func team(ctx context.Context, c Config, method string, body any, s cli.Streams) error {
	a, err := c.tenant()
	if err != nil {
		return err
	}
	var t httpapi.Team
	if err := a.call(ctx, method, a.team, body, &t); err != nil {
		return err
	}
	return show(s, t, "team %s has the name %s", t.ID, t.Name)
}

// LeaveTeam removes the caller from the team, with the caller's API tokens.
func LeaveTeam(ctx context.Context, c Config, s cli.Streams) error {
	return remove(ctx, c, "/membership", c.Team, "left team %s", s)
}

// remove deletes the object at a path below the team.
func remove(ctx context.Context, c Config, path, id, format string, s cli.Streams) error {
	a, err := c.tenant()
	if err != nil {
		return err
	}
	if err := a.call(ctx, http.MethodDelete, a.team+path, nil, nil); err != nil {
		return err
	}
	return show(s, removed{id}, format, id)
}

// wantID adds the remedy to the error of an ID that does not exist. kind is the command that lists the IDs.
func wantID(err error, kind string) error {
	var refused *refusal
	if errors.As(err, &refused) && refused.status == http.StatusNotFound {
		return fmt.Errorf("%w: want an id of `freshet ctl %s list`", err, kind)
	}
	return err
}

// ListClusters writes the virtual clusters of the team.
func ListClusters(ctx context.Context, c Config, s cli.Streams) error {
	a, err := c.tenant()
	if err != nil {
		return err
	}
	return list(ctx, a, a.team+"/clusters", "NAME\tCLUSTER ID\tSTATE\tCREATED\tEXPIRES", func(v httpapi.Cluster) []string {
		expires := v.Expires
		if v.Purge != nil {
			expires = v.Purge
		}
		return []string{v.Name, v.ID, stateText(&v), timeText(&v.Created), timeText(expires)}
	}, s)
}

// ListAllClusters writes the virtual clusters of all teams, with an operator key.
func ListAllClusters(ctx context.Context, c Config, s cli.Streams) error {
	a, err := c.operator()
	if err != nil {
		return err
	}
	return list(ctx, a, "/v1/clusters", "CLUSTER ID\tTEAM\tNAME\tSTATE\tCREATED\tTEAM ID\tAPPROVED\tLIMITS", func(v httpapi.TeamCluster) []string {
		approved := "no"
		if v.Approved {
			approved = "yes"
		}
		return []string{v.ID, cmp.Or(v.TeamName, "-"), v.Name, stateText(&v.Cluster), timeText(&v.Created), v.Team, approved, limitsText(v.Limits)}
	}, s)
}

// LimitCluster changes the limits of a virtual cluster that are not nil, with an operator key.
func LimitCluster(ctx context.Context, c Config, id string, limits httpapi.Limits, s cli.Streams) error {
	if limits == (httpapi.Limits{}) {
		return usagef("want one limit or more, such as --partitions 1000")
	}
	v, err := operate(ctx, c, http.MethodPatch, id, "/limits", limits)
	if err != nil {
		return err
	}
	return show(s, v, "cluster %s with id %s has the limits: %s", v.Name, v.ID, limitsText(v.Limits))
}

// BlockCluster suspends a virtual cluster so that its team cannot resume it, with an operator key.
func BlockCluster(ctx context.Context, c Config, id string, s cli.Streams) error {
	return setBlocked(ctx, c, id, "/block", s)
}

// UnblockCluster ends BlockCluster.
func UnblockCluster(ctx context.Context, c Config, id string, s cli.Streams) error {
	return setBlocked(ctx, c, id, "/unblock", s)
}

func setBlocked(ctx context.Context, c Config, id, path string, s cli.Streams) error {
	v, err := operate(ctx, c, http.MethodPost, id, path, nil)
	if err != nil {
		return err
	}
	return show(s, v, "cluster %s with id %s is %s", v.Name, v.ID, stateText(&v.Cluster))
}

// operate makes a request about a cluster of any team, with an operator key.
func operate(ctx context.Context, c Config, method, id, path string, body any) (v httpapi.TeamCluster, err error) {
	a, err := c.operator()
	if err != nil {
		return v, err
	}
	err = a.call(ctx, method, "/v1/clusters/"+url.PathEscape(id)+path, body, &v)
	return v, err
}

// CreateCluster creates a virtual cluster.
func CreateCluster(ctx context.Context, c Config, name string, s cli.Streams) error {
	a, err := c.tenant()
	if err != nil {
		return err
	}
	return a.cluster(ctx, http.MethodPost, "", named{name}, s)
}

// cluster makes a request below the clusters of the team, and writes the cluster in the answer.
func (a *api) cluster(ctx context.Context, method, path string, body any, s cli.Streams) error {
	var v httpapi.Cluster
	if err := a.call(ctx, method, a.team+"/clusters"+path, body, &v); err != nil {
		return err
	}
	return show(s, v, "cluster %s with id %s is %s", v.Name, v.ID, stateText(&v))
}

// findCluster returns the cluster with an ID or a name.
func (a *api) findCluster(ctx context.Context, text string) (httpapi.Cluster, error) {
	return find(ctx, a, a.team+"/clusters", "cluster", text, func(v httpapi.Cluster) (id, name string) { return v.ID, v.Name })
}

// onCluster makes a request about the cluster with an ID or a name.
func onCluster(ctx context.Context, c Config, cluster, method, path string, body any, s cli.Streams) error {
	a, err := c.tenant()
	if err != nil {
		return err
	}
	found, err := a.findCluster(ctx, cluster)
	if err != nil {
		return err
	}
	return a.cluster(ctx, method, "/"+url.PathEscape(found.ID)+path, body, s)
}

// GetCluster writes the cluster with an ID or a name.
func GetCluster(ctx context.Context, c Config, cluster string, s cli.Streams) error {
	a, err := c.tenant()
	if err != nil {
		return err
	}
	v, err := a.findCluster(ctx, cluster)
	if err != nil {
		return err
	}
	return show(s, v, "cluster %s with id %s is %s, with the limits: %s", v.Name, v.ID, stateText(&v), limitsText(v.Limits))
}

// RenameCluster changes the name of a cluster.
func RenameCluster(ctx context.Context, c Config, cluster, name string, s cli.Streams) error {
	return onCluster(ctx, c, cluster, http.MethodPatch, "", named{name}, s)
}

// UndeleteCluster brings a deleted cluster back.
func UndeleteCluster(ctx context.Context, c Config, cluster string, s cli.Streams) error {
	return onCluster(ctx, c, cluster, http.MethodPost, "/undelete", nil, s)
}

// SuspendCluster stops a cluster, which keeps everything.
func SuspendCluster(ctx context.Context, c Config, cluster string, s cli.Streams) error {
	return onCluster(ctx, c, cluster, http.MethodPost, "/suspend", nil, s)
}

// ResumeCluster ends a suspension.
func ResumeCluster(ctx context.Context, c Config, cluster string, s cli.Streams) error {
	return onCluster(ctx, c, cluster, http.MethodPost, "/resume", nil, s)
}

// DeleteCluster marks a cluster as deleted and stops it.
func DeleteCluster(ctx context.Context, c Config, cluster string, s cli.Streams) error {
	v, err := deleted(ctx, c, cluster, http.MethodDelete, "")
	if err != nil {
		return err
	}
	return show(s, v, "deleted cluster %s; until %s, freshet ctl cluster undelete brings it back\nits records stay in the bucket of its agents, under %s; to remove them then: %s",
		v.Name, timeText(v.Purge), v.Prefix, v.RemoveObjects)
}

// PurgeCluster removes a deleted cluster for good.
func PurgeCluster(ctx context.Context, c Config, cluster string, s cli.Streams) error {
	v, err := deleted(ctx, c, cluster, http.MethodPost, "/purge")
	if err != nil {
		return err
	}
	return show(s, v, "cluster %s with id %s is removed within seconds\nits records stay in the bucket of its agents, under %s; to remove them: %s", v.Name, v.ID, v.Prefix, v.RemoveObjects)
}

// deleted makes a request that is answered with a deleted cluster.
func deleted(ctx context.Context, c Config, cluster, method, path string) (v httpapi.DeletedCluster, err error) {
	a, err := c.tenant()
	if err != nil {
		return v, err
	}
	found, err := a.findCluster(ctx, cluster)
	if err != nil {
		return v, err
	}
	return v, a.call(ctx, method, a.team+"/clusters/"+url.PathEscape(found.ID)+path, nil, &v)
}

// onKeys calls fn with the API and the path of the agent keys of a cluster.
func onKeys(ctx context.Context, c Config, cluster string, fn func(a *api, path string) error) error {
	a, err := c.tenant()
	if err != nil {
		return err
	}
	found, err := a.findCluster(ctx, cluster)
	if err != nil {
		return err
	}
	return fn(a, a.team+"/clusters/"+url.PathEscape(found.ID)+"/agent-keys")
}

// ListKeys writes the agent keys of a cluster, without their secrets.
func ListKeys(ctx context.Context, c Config, cluster string, s cli.Streams) error {
	return onKeys(ctx, c, cluster, func(a *api, path string) error {
		return list(ctx, a, path, "NAME\tCREATED\tKEY ID", func(k httpapi.AgentKey) []string {
			return []string{k.Name, timeText(&k.Created), k.ID}
		}, s)
	})
}

// CreateKey creates an agent key of a cluster, and writes it.
func CreateKey(ctx context.Context, c Config, cluster, name string, s cli.Streams) error {
	return onKeys(ctx, c, cluster, func(a *api, path string) error {
		var k httpapi.NewAgentKey
		if err := a.call(ctx, http.MethodPost, path, named{name}, &k); err != nil {
			return err
		}
		return show(s, k, "%s", k.Key)
	})
}

// RevokeKey deletes an agent key of a cluster.
func RevokeKey(ctx context.Context, c Config, cluster, key string, s cli.Streams) error {
	return onKeys(ctx, c, cluster, func(a *api, path string) error {
		if err := a.call(ctx, http.MethodDelete, path+"/"+url.PathEscape(key), nil, nil); err != nil {
			return wantID(err, "key")
		}
		return show(s, removed{key}, "revoked agent key %s", key)
	})
}

// ListMembers writes the members of the team.
func ListMembers(ctx context.Context, c Config, s cli.Streams) error {
	a, err := c.tenant()
	if err != nil {
		return err
	}
	return list(ctx, a, a.team+"/members", "E-MAIL\tNAME\tROLE\tACCOUNT", func(m httpapi.Member) []string {
		return []string{m.Email, m.Name, m.Role, m.Account}
	}, s)
}

// onMember makes a request about the member with an account ID or an e-mail address.
func onMember(ctx context.Context, c Config, member, method string, body, into any) (httpapi.Member, error) {
	a, err := c.tenant()
	if err != nil {
		return httpapi.Member{}, err
	}
	m, err := find(ctx, a, a.team+"/members", "member", member, func(m httpapi.Member) (id, name string) { return m.Account, m.Email })
	if err != nil {
		return m, err
	}
	return m, a.call(ctx, method, a.team+"/members/"+url.PathEscape(m.Account), body, into)
}

// SetRole changes the role of a member.
func SetRole(ctx context.Context, c Config, member, role string, s cli.Streams) error {
	var m httpapi.Member
	body := struct {
		Role string `json:"role"`
	}{role}
	if _, err := onMember(ctx, c, member, http.MethodPatch, body, &m); err != nil {
		return err
	}
	return show(s, m, "member %s has the role %s", member, m.Role)
}

// RemoveMember removes a member and the member's API tokens.
func RemoveMember(ctx context.Context, c Config, member string, s cli.Streams) error {
	m, err := onMember(ctx, c, member, http.MethodDelete, nil, nil)
	if err != nil {
		return err
	}
	return show(s, removed{m.Account}, "removed member %s", member)
}

// ListInvitations writes the open invitations.
func ListInvitations(ctx context.Context, c Config, s cli.Streams) error {
	a, err := c.tenant()
	if err != nil {
		return err
	}
	return list(ctx, a, a.team+"/invitations", "E-MAIL\tROLE\tEXPIRES\tINVITATION ID", func(i httpapi.Invitation) []string {
		return []string{i.Email, i.Role, timeText(&i.Expires), i.ID}
	}, s)
}

// CreateInvitation invites an e-mail address, and writes the command that accepts the invitation, with its secret.
func CreateInvitation(ctx context.Context, c Config, email, role string, s cli.Streams) error {
	a, err := c.tenant()
	if err != nil {
		return err
	}
	var i httpapi.NewInvitation
	body := struct {
		Email string `json:"email"`
		Role  string `json:"role"`
	}{email, role}
	if err := a.call(ctx, http.MethodPost, a.team+"/invitations", body, &i); err != nil {
		return err
	}
	return show(s, i, "# %s runs this until %s, with --signup if there is no account yet:\nFRESHET_PASSWORD=... freshet ctl invitation accept %s %s %s",
		i.Email, timeText(&i.Expires), shellWord(i.Email), i.Secret, c.shellFlags())
}

// RevokeInvitation deletes an invitation.
func RevokeInvitation(ctx context.Context, c Config, invitation string, s cli.Streams) error {
	return wantID(remove(ctx, c, "/invitations/"+url.PathEscape(invitation), invitation, "revoked invitation %s", s), "invitation")
}

// ListTokens writes API tokens, without their secrets.
func ListTokens(ctx context.Context, c Config, s cli.Streams) error {
	a, err := c.tenant()
	if err != nil {
		return err
	}
	return list(ctx, a, a.team+"/tokens", "NAME\tROLE\tEXPIRES\tUSED\tMEMBER\tTOKEN ID", func(t httpapi.Token) []string {
		return []string{t.Name, t.Role, timeText(t.Expires), timeText(t.Used), cmp.Or(t.Email, t.Account), t.ID}
	}, s)
}

// CreateToken creates an API token of the caller that expires after a time, or never if expires is 0, and writes the token.
func CreateToken(ctx context.Context, c Config, name, role string, expires time.Duration, s cli.Streams) error {
	if expires < 0 {
		return usagef("--expires %v: want a time above 0, or 0 for a token that does not expire", expires)
	}
	a, err := c.tenant()
	if err != nil {
		return err
	}
	body := struct {
		Name    string     `json:"name"`
		Role    string     `json:"role"`
		Expires *time.Time `json:"expires,omitempty"`
	}{Name: name, Role: role}
	if expires > 0 {
		at := time.Now().Add(expires).UTC()
		body.Expires = &at
	}
	var t httpapi.NewToken
	if err := a.call(ctx, http.MethodPost, a.team+"/tokens", body, &t); err != nil {
		return err
	}
	return show(s, t, "%s", t.Secret)
}

// RevokeToken deletes an API token.
func RevokeToken(ctx context.Context, c Config, token string, s cli.Streams) error {
	return wantID(remove(ctx, c, "/tokens/"+url.PathEscape(token), token, "revoked API token %s", s), "token")
}

// ListAudit writes the newest changes of the team, the newest first.
func ListAudit(ctx context.Context, c Config, s cli.Streams) error {
	a, err := c.tenant()
	if err != nil {
		return err
	}
	return list(ctx, a, a.team+"/audit", "TIME\tACTION\tSUBJECT\tACTOR\tADDRESS", func(e httpapi.Entry) []string {
		return []string{timeText(&e.Time), e.Action, cmp.Or(e.SubjectEmail, e.Subject), actorText(&e), e.Address}
	}, s)
}

// actorText returns the actor of an audit entry, with the e-mail address and the name of the API token in place of their IDs if they still exist.
func actorText(e *httpapi.Entry) string {
	account, token, byToken := strings.Cut(e.Actor, " token ")
	text := cmp.Or(e.ActorEmail, account)
	if byToken {
		text += " token " + cmp.Or(e.ActorToken, token)
	}
	return text
}
