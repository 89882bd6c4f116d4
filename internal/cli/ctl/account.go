package ctl

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/freshet-io/freshet/controlplane/registry/httpapi"
	"github.com/freshet-io/freshet/internal/cli"
)

// SignUp creates an account with a team, a virtual cluster and an agent key, and writes the settings of the agents for the environment.
func SignUp(ctx context.Context, c Config, email, team, cluster string, s cli.Streams) error {
	a, password, err := c.account()
	if err != nil {
		return err
	}
	body := struct {
		Email    string `json:"email"`
		Password string `json:"password"`
		Team     string `json:"team"`
		Cluster  string `json:"cluster"`
	}{email, password, team, cluster}
	var made httpapi.SignedUp
	if err := a.call(ctx, http.MethodPost, "/v1/signup", body, &made); err != nil {
		return err
	}
	return show(s, made, "FRESHET_TEAM=%s\nFRESHET_CONTROL_PLANE=%s\nFRESHET_AGENT_KEY=%s", made.Team.ID, made.ControlPlane, made.AgentKey.Key)
}

// logInToken is the name of the API token that LogIn creates.
const logInToken = "freshet ctl login"

// LogIn creates an API token with the role of an account in a team, and writes the team and the token for the environment. Without Config.Team, the account has one
// team. The session of the login ends before LogIn returns.
func LogIn(ctx context.Context, c Config, email string, life time.Duration, s cli.Streams) error {
	a, password, err := c.account()
	if err != nil {
		return err
	}
	body := struct {
		Email    string `json:"email"`
		Password string `json:"password"`
	}{email, password}
	var opened httpapi.Session
	if err := a.call(ctx, http.MethodPost, "/v1/sessions", body, &opened); err != nil {
		return err
	}
	a.session = opened.Secret
	made, err := a.tokenOfSession(ctx, opened.Teams, c.Team, life)
	if logOut := a.call(ctx, http.MethodDelete, "/v1/sessions/current", nil, nil); logOut != nil {
		fmt.Fprintf(s.Err, "freshet: the session stays open until %s: %v\n", timeText(&opened.Expires), logOut)
	}
	if err != nil {
		return err
	}
	return show(s, made, "FRESHET_TEAM=%s\nFRESHET_TOKEN=%s", made.Team, made.Secret)
}

// teamToken is an API token with its team.
type teamToken struct {
	Team string `json:"team"`
	httpapi.NewToken
}

// tokenOfSession creates an API token of a team, or of the only team for "".
func (a *api) tokenOfSession(ctx context.Context, teams []httpapi.MemberTeam, id string, life time.Duration) (made teamToken, err error) {
	var names []string
	var found []httpapi.MemberTeam
	for _, t := range teams {
		names = append(names, t.ID+" ("+t.Name+")")
		if id == "" || t.ID == id {
			found = append(found, t)
		}
	}
	if len(found) != 1 {
		return made, usagef("--team %q: the account has the teams %s", id, strings.Join(names, ", "))
	}
	made.Team = found[0].ID
	body := struct {
		Name    string     `json:"name"`
		Role    string     `json:"role"`
		Expires *time.Time `json:"expires"`
	}{logInToken, found[0].Role, new(time.Now().Add(life))}
	return made, a.call(ctx, http.MethodPost, "/v1/teams/"+url.PathEscape(made.Team)+"/tokens", body, &made.NewToken)
}
