package ctl

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/registry/httpapi"
	"github.com/freshet-io/freshet/internal/cli"
	"github.com/freshet-io/freshet/internal/testservers"
)

// serve returns the configuration of a client of a server.
func serve(t *testing.T, handle http.HandlerFunc) Config {
	t.Helper()
	return serveVersion(t, 1, handle)
}

// serveVersion is serve with a version of HTTP.
func serveVersion(t *testing.T, version int, handle http.HandlerFunc) Config {
	t.Helper()
	s := httptest.NewUnstartedServer(handle)
	s.EnableHTTP2 = version == 2
	s.StartTLS()
	t.Cleanup(s.Close)
	trust := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return Config{URL: s.URL, Team: "team", Token: "secret", CA: string(trust)}
}

// streams returns Streams with their outputs.
func streams() (s cli.Streams, out, errs *bytes.Buffer) {
	out, errs = &bytes.Buffer{}, &bytes.Buffer{}
	return cli.Streams{In: strings.NewReader(""), Out: out, Err: errs}, out, errs
}

func TestConfig_Faults(t *testing.T) {
	dir := t.TempDir()
	empty, two := filepath.Join(dir, "empty"), filepath.Join(dir, "two")
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))
	spaced := filepath.Join(dir, "spaced")
	require.NoError(t, os.WriteFile(spaced, []byte("a b\n"), 0o600))
	require.NoError(t, os.WriteFile(two, []byte("a\nb\n"), 0o600))
	for _, c := range []struct {
		config Config
		says   string
		usage  bool
	}{
		{Config{}, "want --url, and --team, and --token or --token-file", true},
		{Config{URL: "https://a", Team: "t"}, "want --token or --token-file", true},
		{Config{URL: "https://a", Team: "t", Token: "x", TokenFile: "y"}, "--token and --token-file exclude each other", true},
		{Config{URL: "http://a:1", Team: "t", Token: "x"}, `--url "http://a:1": want https://, host and port`, true},
		{Config{URL: "a:1", Team: "t", Token: "x"}, `--url "a:1": want https://, host and port`, true},
		{Config{URL: "https://a:1", Team: "t", Token: "x", CA: "none.pem"}, "--tls-ca: ", true},
		{Config{URL: "https://a:1", Team: "t", TokenFile: filepath.Join(dir, "none")}, "--token-file: open ", false},
		{Config{URL: "https://a:1", Team: "t", TokenFile: spaced}, "want one API token", false},
		{Config{URL: "https://a:1", Team: "t", TokenFile: empty}, "want one line", false},
		{Config{URL: "https://a:1", Team: "t", TokenFile: two}, "want one line", false},
	} {
		s, _, _ := streams()
		err := GetTeam(t.Context(), c.config, s)
		require.ErrorContains(t, err, c.says)
		var usage *cli.UsageError
		require.Equal(t, c.usage, errors.As(err, &usage), c.says)
	}
}

// TestCall_KeepsSecret: a redirect is an error, and the secret goes nowhere else.
func TestCall_KeepsSecret(t *testing.T) {
	asked := 0
	other := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer other.Close()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	})
	s, _, _ := streams()
	err := GetTeam(t.Context(), c, s)
	require.ErrorContains(t, err, "answers 307 Temporary Redirect, but not as the HTTP API for tenants does")
	require.NotContains(t, err.Error(), "secret")
	require.Zero(t, asked)
}

func TestCall_Errors(t *testing.T) {
	for _, c := range []struct{ name, answer, says string }{
		{"problem", `{"status":409,"detail":"already taken"}`, "already taken"},
		{"faults", `{"detail":"validation failed","errors":[{"location":"body.name","message":"too long"}]}`, "validation failed; body.name: too long"},
		{"another server", "<html>", "give the address of --public-listen of a control plane"},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusConflict)
				_, _ = io.WriteString(w, c.answer)
			})
			s, out, _ := streams()
			require.ErrorContains(t, CreateCluster(t.Context(), config, "x", s), c.says)
			require.Empty(t, out)
		})
	}
}

// TestCall_NoAnswer: a change without an answer may have been made, and is sent once.
func TestCall_NoAnswer(t *testing.T) {
	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprint("HTTP/", version), func(t *testing.T) {
			var requests atomic.Int32
			c := serveVersion(t, version, func(_ http.ResponseWriter, r *http.Request) {
				if r.ProtoMajor == version {
					requests.Add(1)
				}
				panic(http.ErrAbortHandler) // ends the connection
			})
			s, _, _ := streams()
			require.ErrorContains(t, CreateCluster(t.Context(), c, "x", s), "the change may have been made: look before you repeat it")
			require.EqualValues(t, 1, requests.Load())
		})
	}
}

// TestCall_NotSent: a change whose request cannot have reached the server was not made.
func TestCall_NotSent(t *testing.T) {
	served := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request arrived") })
	const remedy = "certificate signed by unknown authority; if it is a private authority, give its certificate with --tls-ca FILE"
	for _, c := range []struct {
		name   string
		change func(*Config)
		says   string
	}{
		{"certificate of an authority that the system does not know", func(c *Config) { c.CA = "" }, remedy},
		{"certificate of another authority", func(c *Config) { c.CA = testservers.NewTLSFiles(t).CA }, remedy},
		{"certificate with another name", func(c *Config) { c.URL = strings.Replace(c.URL, "127.0.0.1", "localhost", 1) }, "not localhost"},
		{"connection refused", func(c *Config) { c.URL = "https://127.0.0.1:1" }, "refused"},
		{"no such host", func(c *Config) { c.URL = "https://freshet.invalid" }, "freshet.invalid"},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := served
			c.change(&config)
			s, _, _ := streams()
			err := CreateCluster(t.Context(), config, "x", s)
			require.ErrorContains(t, err, c.says)
			require.Equal(t, c.says == remedy, strings.Contains(err.Error(), "--tls-ca"), "%v", err)
			require.NotContains(t, err.Error(), "may have been made")
		})
	}
}

// TestFind_PrefersIDs: a cluster with the ID of another one as its name does not stand for that one. Lists have several pages.
func TestFind_PrefersIDs(t *testing.T) {
	var asked []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.RequestURI())
		switch {
		case r.Method == http.MethodDelete:
			fmt.Fprint(w, `{"name":"other","purge":"2026-11-29T06:30:00Z","prefix":"second/","remove_objects":"aws s3 rm"}`)
		case r.URL.Query().Get("cursor") == "":
			fmt.Fprint(w, `{"items":[{"id":"first","name":"second"}],"next":"a+b","unreadable":0}`)
		default:
			fmt.Fprint(w, `{"items":[{"id":"second","name":"other"}],"unreadable":1}`)
		}
	})
	s, out, _ := streams()
	require.NoError(t, DeleteCluster(t.Context(), c, "second", s))
	require.Equal(t, "deleted cluster other; until 2026-11-29T06:30:00Z, freshet ctl cluster undelete brings it back\n"+
		"its records stay in the bucket of its agents, under second/; to remove them then: aws s3 rm\n", out.String())
	require.Equal(t, []string{"GET /v1/teams/team/clusters", "GET /v1/teams/team/clusters?cursor=a%2Bb", "DELETE /v1/teams/team/clusters/second"}, asked)
	s, out, errs := streams()
	require.NoError(t, ListClusters(t.Context(), c, s))
	require.Equal(t, 3, strings.Count(out.String(), "\n"))
	require.Contains(t, errs.String(), "the server cannot read 1 records of this list")
}

// TestSignUp_Text: the settings are lines for the environment, and the rest are comments.
func TestSignUp_Text(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(body), `"demo":true`) {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		fmt.Fprint(w, `{"account":"a","team":{"id":"t"},"control_plane":"cp:443","agent_key":{"key":"fsk_k"},"agent_command":"freshet agent --zone ZONE","cluster":{"expires":"2026-11-29T06:30:00Z"}}`)
	})
	c.Password.Text = "correct horse"
	s, out, _ := streams()
	require.NoError(t, SignUp(t.Context(), c, "ada@example.com", "team", "main", true, s))
	require.Equal(t, `# start agents with: freshet agent --zone ZONE
# the virtual cluster is deleted at 2026-11-29T06:30:00Z
FRESHET_TEAM=t
FRESHET_CONTROL_PLANE=cp:443
FRESHET_CONTROL_PLANE_TLS=true
FRESHET_AGENT_KEY=fsk_k
`, out.String())
}

// TestChangePassword: the session of the change ends, also if the change fails.
func TestChangePassword(t *testing.T) {
	for _, status := range []int{http.StatusNoContent, http.StatusForbidden} {
		var asked []string
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			asked = append(asked, r.Method+" "+r.URL.Path+" "+string(body)+" "+r.Header.Get("Cookie"))
			switch r.Method {
			case http.MethodPost:
				fmt.Fprint(w, `{"session":"s"}`)
			case http.MethodPut:
				w.WriteHeader(status)
			default:
				w.WriteHeader(http.StatusNoContent)
			}
		})
		c.Password.Text = "old"
		s, out, _ := streams()
		err := ChangePassword(t.Context(), c, "ada@example.com", Secret{Text: "new"}, s)
		require.Equal(t, []string{
			`POST /v1/sessions {"email":"ada@example.com","password":"old"} `,
			`PUT /v1/account/password {"old":"old","new":"new"} __Host-freshet=s`,
			`DELETE /v1/sessions/current  __Host-freshet=s`,
		}, asked)
		if status == http.StatusNoContent {
			require.NoError(t, err)
			require.Equal(t, "changed the password of ada@example.com\n", out.String())
		} else {
			require.Error(t, err)
		}
	}
}

// TestMails_Text: the commands of mails send the token and a password.
func TestMails_Text(t *testing.T) {
	var asked []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, r.Method+" "+r.URL.Path+" "+string(body)+r.Header.Get("Authorization"))
		switch {
		case r.Method == http.MethodPut:
			w.WriteHeader(http.StatusNoContent)
		case r.URL.Path == "/v1/signup/verify":
			fmt.Fprint(w, `{"account":"a","team":{"id":"t"},"control_plane":"cp:443","agent_key":{"key":"fsk_k"},"cluster":{}}`)
		default:
			w.WriteHeader(http.StatusAccepted)
			fmt.Fprint(w, `{"email":"ada@example.com"}`)
		}
	})
	c.Password.Text = "correct horse"
	s, out, _ := streams()
	require.NoError(t, SignUp(t.Context(), c, "ada@example.com", "team", "main", false, s))
	require.NoError(t, RequestReset(t.Context(), c, "ada@example.com", s))
	require.Equal(t, strings.Repeat("# a mail to ada@example.com has the next command\n", 2), out.String())
	require.NoError(t, Verify(t.Context(), c, "first", s))
	require.Contains(t, out.String(), "FRESHET_AGENT_KEY=fsk_k\n")
	require.NoError(t, ResetPassword(t.Context(), c, "second", Secret{Text: "another horse"}, s))
	require.Equal(t, []string{
		`POST /v1/signup {"email":"ada@example.com","password":"correct horse","team":"team","cluster":"main"}`,
		`POST /v1/password-resets {"email":"ada@example.com"}`,
		`POST /v1/signup/verify {"token":"first","password":"correct horse"}`,
		`PUT /v1/password-resets {"token":"second","password":"another horse"}`,
	}, asked)
}

// TestAcceptInvitation_WithoutAccount: the error of a login does not show whether there is an account, so it names both ways on.
func TestAcceptInvitation_WithoutAccount(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"detail":"the e-mail address or the password is wrong"}`)
	})
	c.Password.Text = "correct horse"
	s, _, _ := streams()
	err := AcceptInvitation(t.Context(), c, "ada@example.com", "SECRET", false, s)
	require.EqualError(t, err, "the e-mail address or the password is wrong; if there is no account yet, give --signup")
	require.EqualError(t, AcceptInvitation(t.Context(), c, "ada@example.com", "SECRET", true, s), "the e-mail address or the password is wrong")
}

// TestRevoke_WantsID: a name in place of an ID.
func TestRevoke_WantsID(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprint(w, `{"items":[{"id":"id","name":"main"}]}`)
			return
		}
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"detail":"not found"}`)
	})
	s, _, _ := streams()
	require.EqualError(t, RevokeKey(t.Context(), c, "main", "agents", s), "not found: want an id of `freshet ctl key list`")
	require.EqualError(t, RevokeToken(t.Context(), c, "ci", s), "not found: want an id of `freshet ctl token list`")
	require.EqualError(t, RevokeInvitation(t.Context(), c, "ada@example.com", s), "not found: want an id of `freshet ctl invitation list`")
}

// TestLogIn_WithoutTeam: an account that was removed from its team gets no token.
func TestLogIn_WithoutTeam(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"session":"s","teams":[]}`) })
	c.Password.Text = "correct horse"
	s, _, _ := streams()
	require.EqualError(t, LogIn(t.Context(), c, "ada@example.com", time.Hour, s), "the account has no team any more: accept an invitation into one")
}

// TestInvitation_Text: the command of an invitation has each word as one of a shell.
func TestInvitation_Text(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"email":"o'brien@example.com","expires":"2026-11-29T06:30:00Z","secret":"ABC"}`)
	})
	c.Team = "-team"
	s, out, _ := streams()
	require.NoError(t, CreateInvitation(t.Context(), c, "o'brien@example.com", "member", s))
	require.Equal(t, "# o'brien@example.com runs this until 2026-11-29T06:30:00Z, with --signup if there is no account yet:\n"+
		`FRESHET_PASSWORD=... freshet ctl invitation accept 'o'\''brien@example.com' ABC --team=-team --url=`+c.URL+"\n", out.String())
	c.CA = "/etc/my ca.pem"
	require.Equal(t, "--team=-team --url="+c.URL+" --tls-ca='/etc/my ca.pem'", c.shellFlags())
}

func TestActorText(t *testing.T) {
	for want, e := range map[string]httpapi.Entry{
		"ID":                             {Actor: "ID"},
		"ada@example.com":                {Actor: "ID", ActorEmail: "ada@example.com"},
		"ada@example.com token ci":       {Actor: "ID token 1a2b3c4d", ActorEmail: "ada@example.com", ActorToken: "ci"},
		"ada@example.com token 1a2b3c4d": {Actor: "ID token 1a2b3c4d", ActorEmail: "ada@example.com"},
		"operator key 1a2b3c4d":          {Actor: "operator key 1a2b3c4d"},
	} {
		require.Equal(t, want, actorText(&e))
	}
}
