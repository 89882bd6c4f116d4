package ctl

import (
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

// SignUp creates an account with a team, a virtual cluster and an agent key, and writes the settings of the agents for the environment, with the command that
// starts one as a comment.
func SignUp(ctx context.Context, c Config, email, team, cluster string, demo bool, s cli.Streams) error {
	a, password, err := c.account()
	if err != nil {
		return err
	}
	body := struct {
		Email    string `json:"email"`
		Password string `json:"password"`
		Team     string `json:"team"`
		Cluster  string `json:"cluster"`
		Demo     bool   `json:"demo,omitempty"`
	}{email, password, team, cluster, demo}
	var made httpapi.SignedUp
	if err := a.call(ctx, http.MethodPost, "/v1/signup", body, &made); err != nil {
		return err
	}
	if made.Account == "" {
		return mailed(email, s)
	}
	return signedUp(made, s)
}

// mailed writes the answer to a request for a mail.
func mailed(email string, s cli.Streams) error {
	return show(s, httpapi.Mailed{Email: email}, "# a mail to %s has the next command", email)
}

// Verify completes a sign-up by the token of its mail and its password, and writes what SignUp writes.
func Verify(ctx context.Context, c Config, token string, s cli.Streams) error {
	a, password, err := c.account()
	if err != nil {
		return err
	}
	var made httpapi.SignedUp
	if err := a.call(ctx, http.MethodPost, "/v1/signup/verify", mailToken{token, password}, &made); err != nil {
		return err
	}
	return signedUp(made, s)
}

type mailToken struct {
	Token    string `json:"token"`
	Password string `json:"password"`
}

// RequestReset has a mail sent with which ResetPassword sets another password.
func RequestReset(ctx context.Context, c Config, email string, s cli.Streams) error {
	a, err := c.anyone()
	if err != nil {
		return err
	}
	body := struct {
		Email string `json:"email"`
	}{email}
	if err := a.call(ctx, http.MethodPost, "/v1/password-resets", body, nil); err != nil {
		return err
	}
	return mailed(email, s)
}

// ResetPassword sets another password by the token of a mail.
func ResetPassword(ctx context.Context, c Config, token string, next Secret, s cli.Streams) error {
	a, err := c.anyone()
	if err != nil {
		return err
	}
	text, err := next.read("--new-password")
	if err != nil {
		return err
	}
	if err := a.call(ctx, http.MethodPut, "/v1/password-resets", mailToken{token, text}, nil); err != nil {
		return err
	}
	return show(s, struct{}{}, "set another password")
}

func signedUp(made httpapi.SignedUp, s cli.Streams) error {
	life := ""
	if made.Cluster.Expires != nil {
		life = "# the virtual cluster is deleted at " + timeText(made.Cluster.Expires) + "\n"
	}
	return show(s, made, "# start agents with: %s\n%sFRESHET_TEAM=%s\nFRESHET_CONTROL_PLANE=%s\nFRESHET_CONTROL_PLANE_TLS=true\nFRESHET_AGENT_KEY=%s",
		made.AgentCommand, life, made.Team.ID, made.ControlPlane, made.AgentKey.Key)
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
	var made teamToken
	err = a.inSession(ctx, logInBody{email, password}, s, func(teams []httpapi.MemberTeam) (err error) {
		made, err = a.tokenOfSession(ctx, teams, c.Team, life)
		return err
	})
	if err != nil {
		return err
	}
	return show(s, made, "FRESHET_TEAM=%s\nFRESHET_TOKEN=%s", made.Team, made.Secret)
}

// inSession logs in with the body of a login, calls fn with the teams of the account, and logs out.
func (a *api) inSession(ctx context.Context, body any, s cli.Streams, fn func([]httpapi.MemberTeam) error) error {
	var opened httpapi.Session
	if err := a.call(ctx, http.MethodPost, "/v1/sessions", body, &opened); err != nil {
		return err
	}
	a.session = opened.Secret
	err := fn(opened.Teams)
	if logOut := a.call(ctx, http.MethodDelete, "/v1/sessions/current", nil, nil); logOut != nil {
		fmt.Fprintf(s.Err, "freshet: the session stays open until %s: %v\n", timeText(&opened.Expires), logOut)
	}
	return err
}

// ChangePassword replaces the password of an account, which ends its other sessions.
func ChangePassword(ctx context.Context, c Config, email string, next Secret, s cli.Streams) error {
	a, password, err := c.account()
	if err != nil {
		return err
	}
	text, err := next.read("--new-password")
	if err != nil {
		return err
	}
	err = a.inSession(ctx, logInBody{email, password}, s, func([]httpapi.MemberTeam) error {
		body := struct {
			Old string `json:"old"`
			New string `json:"new"`
		}{password, text}
		return a.call(ctx, http.MethodPut, "/v1/account/password", body, nil)
	})
	if err != nil {
		return err
	}
	return show(s, struct {
		Email string `json:"email"`
	}{email}, "changed the password of %s", email)
}

type logInBody struct {
	Email    string `json:"email"`
	Password string `json:"password"`
}

// teamToken is an API token with its team.
type teamToken struct {
	Team string `json:"team"`
	httpapi.NewToken
}

// tokenOfSession creates an API token of a team, or of the only team for "".
func (a *api) tokenOfSession(ctx context.Context, teams []httpapi.MemberTeam, id string, life time.Duration) (made teamToken, err error) {
	if len(teams) == 0 {
		return made, errors.New("the account has no team any more: accept an invitation into one")
	}
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

// AcceptInvitation makes an account a member of a team by the secret of an invitation, and writes the team. With signUp, it creates the account.
func AcceptInvitation(ctx context.Context, c Config, email, secret string, signUp bool, s cli.Streams) error {
	a, password, err := c.account()
	if err != nil {
		return err
	}
	if c.Team == "" {
		return usagef("want --team, the id of the team that the invitation is from")
	}
	path := "/v1/teams/" + url.PathEscape(c.Team) + "/invitations/"
	var joined httpapi.Team
	if signUp {
		body := struct {
			Email    string `json:"email"`
			Password string `json:"password"`
			Secret   string `json:"secret"`
		}{email, password, secret}
		err = a.call(ctx, http.MethodPost, path+"signup", body, &joined)
	} else {
		err = a.inSession(ctx, logInBody{email, password}, s, func([]httpapi.MemberTeam) error {
			body := struct {
				Secret string `json:"secret"`
			}{secret}
			return a.call(ctx, http.MethodPost, path+"accept", body, &joined)
		})
		var refused *refusal
		if errors.As(err, &refused) && refused.status == http.StatusUnauthorized {
			err = fmt.Errorf("%w; if there is no account yet, give --signup", err)
		}
	}
	if err != nil {
		return err
	}
	return show(s, joined, "joined team %s; to get an API token: FRESHET_PASSWORD=... freshet ctl login %s %s", joined.Name, shellWord(email), c.shellFlags())
}
