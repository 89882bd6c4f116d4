package httpapi

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/registry"
	"github.com/freshet-io/freshet/controlplane/registry/mail"
	"github.com/freshet-io/freshet/internal/accesskey"
)

// mailbox has the mails of a Handler, which it composes when they are read.
type mailbox struct {
	queued []mail.Compose
	err    error
}

func (m *mailbox) Add(c mail.Compose) error {
	if m.err == nil {
		m.queued = append(m.queued, c)
	}
	return m.err
}

// only returns the only mail, nil for none, and empties the mailbox.
func (m *mailbox) only(t *testing.T) *mail.Message {
	t.Helper()
	require.Len(t, m.queued, 1)
	made, err := m.queued[0](t.Context())
	require.NoError(t, err)
	m.queued = nil
	return made
}

// token returns the token of the only mail, to an address.
func (m *mailbox) token(t *testing.T, email string) string {
	t.Helper()
	made := m.only(t)
	require.NotNil(t, made)
	require.Equal(t, email, made.To)
	require.Contains(t, made.Text, "--url https://api.example.com ")
	for _, word := range strings.Fields(made.Text) {
		if len(word) == 52 {
			return word
		}
	}
	t.Fatalf("no token in %q", made.Text)
	return ""
}

func openWithMail(t *testing.T) (*fixture, *mailbox) {
	t.Helper()
	f, box := open(t), &mailbox{}
	for _, h := range f.handlers {
		h.cfg.Mail, h.cfg.URL = box, "https://api.example.com"
	}
	return f, box
}

func tokenBody(token string) string {
	return `{"token":"` + token + `","password":"` + rightPassword + `"}`
}

// TestSignUp_ByMail: the answer to a sign-up does not show whether the address has an account. The mail does, and its token makes a verified account once.
func TestSignUp_ByMail(t *testing.T) {
	f, box := openWithMail(t)
	body := signUpBodyOf("Ada@example.com", rightPassword, "data", "main")
	f.calm(t)
	fresh := f.post(t, 0, "/v1/signup", body, http.StatusAccepted)
	require.JSONEq(t, `{"email":"ada@example.com"}`, fresh.text)
	_, err := f.reg.AccountByEmail(t.Context(), "ada@example.com")
	require.ErrorIs(t, err, registry.ErrNotFound)
	token := box.token(t, "ada@example.com")
	require.Equal(t, errNoSignUp.Error(), f.post(t, 1, "/v1/signup/verify", tokenBody("other"), http.StatusNotFound).body(t)["detail"])
	stranger := strings.Replace(tokenBody(token), rightPassword, "another horse", 1)
	require.Equal(t, errSignUpPassword.Error(), f.post(t, 1, "/v1/signup/verify", stranger, http.StatusUnauthorized).body(t)["detail"])
	var made SignedUp
	require.NoError(t, json.Unmarshal([]byte(f.post(t, 1, "/v1/signup/verify", tokenBody(token), http.StatusCreated).text), &made))
	require.True(t, f.opens(t, made.Cluster.ID, made.AgentKey.Key))
	a, err := f.reg.Account(t.Context(), made.Account)
	require.NoError(t, err)
	require.False(t, a.Unverified())
	f.post(t, 1, "/v1/signup/verify", tokenBody(token), http.StatusNotFound)
	require.Equal(t, http.StatusCreated, f.logInFrom(t, 0, "ada@example.com", rightPassword, "192.0.2.1").status)

	f.calm(t)
	known := f.post(t, 0, "/v1/signup", strings.Replace(body, rightPassword, "another horse", 1), http.StatusAccepted)
	require.Equal(t, fresh.text, known.text)
	notice := box.only(t)
	require.Equal(t, "You have an account already", notice.Subject)
	require.NotContains(t, notice.Text, "verify")

	f.calm(t)
	f.post(t, 0, "/v1/signup", signUpBodyOf("bob@example.com", rightPassword, "data", "main"), http.StatusAccepted)
	token = box.token(t, "bob@example.com")
	f.clock.Add(registry.SignUpLife.Milliseconds())
	f.post(t, 0, "/v1/signup/verify", tokenBody(token), http.StatusNotFound)
}

// TestSignUp_MailRaces: an account that came first keeps its address.
func TestSignUp_MailRaces(t *testing.T) {
	f, box := openWithMail(t)
	var tokens []string
	for range 2 {
		f.calm(t)
		f.post(t, 0, "/v1/signup", signUpBodyOf("ada@example.com", rightPassword, "data", "main"), http.StatusAccepted)
		tokens = append(tokens, box.token(t, "ada@example.com"))
	}
	f.post(t, 0, "/v1/signup/verify", tokenBody(tokens[0]), http.StatusCreated)
	a := f.post(t, 0, "/v1/signup/verify", tokenBody(tokens[1]), http.StatusConflict)
	require.Contains(t, a.body(t)["detail"], "the e-mail address has an account: log in")
}

// TestVerify_Pauses: sign-ups of an address do not delay their confirmations. Wrong passwords of a confirmation have pauses like those of a login.
func TestVerify_Pauses(t *testing.T) {
	f, box := openWithMail(t)
	var token string
	for range registry.FreeAttempts {
		email := name("ada") + "@example.com"
		f.post(t, 0, "/v1/signup", signUpBodyOf(email, rightPassword, "data", "main"), http.StatusAccepted)
		token = box.token(t, email)
	}
	f.post(t, 0, "/v1/signup", signUpBodyOf("last@example.com", rightPassword, "data", "main"), http.StatusTooManyRequests)
	wrong := strings.Replace(tokenBody(token), rightPassword, "another horse", 1)
	for i := range registry.FreeAttempts {
		f.post(t, i%2, "/v1/signup/verify", wrong, http.StatusUnauthorized)
	}
	a := f.post(t, 0, "/v1/signup/verify", tokenBody(token), http.StatusTooManyRequests)
	require.Equal(t, "too many logins from this IP address: try again in 1 s", a.body(t)["detail"])
	f.clock.Add(time.Second.Milliseconds())
	f.post(t, 0, "/v1/signup/verify", tokenBody(token), http.StatusCreated)
}

// TestPasswordReset: the token of a mail sets a password once, ends all sessions and other tokens, and verifies the address.
func TestPasswordReset(t *testing.T) {
	f, box := openWithMail(t)
	f.setPassword(t, f.other.id)
	require.Equal(t, http.StatusCreated, f.logInFrom(t, 0, f.other.email, rightPassword, "192.0.2.1").status)
	ask := func(email string) answer {
		f.calm(t)
		return f.post(t, 0, "/v1/password-resets", `{"email":"`+email+`"}`, http.StatusAccepted)
	}
	require.JSONEq(t, `{"email":"unknown@example.com"}`, ask("unknown@example.com").text)
	require.Nil(t, box.only(t))
	reset := func(token, password string) int {
		return f.doOn(t, 1, request{method: http.MethodPut, path: "/v1/password-resets", body: `{"token":"` + token + `","password":"` + password + `"}`}).status
	}
	ask(f.other.email)
	first := box.token(t, f.other.email)
	ask(f.other.email)
	second := box.token(t, f.other.email)
	require.Equal(t, http.StatusNotFound, reset("unknown", "another horse"))
	require.Equal(t, http.StatusUnprocessableEntity, reset(first, "short"))
	require.Equal(t, http.StatusNoContent, reset(first, "another horse"))
	require.Equal(t, http.StatusNotFound, reset(first, "another horse"))
	require.Equal(t, http.StatusNotFound, reset(second, "another horse"), "requested before")
	require.Equal(t, http.StatusUnauthorized, f.do(t, request{method: http.MethodGet, path: "/v1/teams/" + f.other.team}.cookie(f.other.session)).status)
	require.Equal(t, http.StatusCreated, f.logInFrom(t, 0, f.other.email, "another horse", "192.0.2.1").status)
	a, err := f.reg.Account(t.Context(), f.other.id)
	require.NoError(t, err)
	require.False(t, a.Verified.IsZero())

	ask(f.other.email)
	late := box.token(t, f.other.email)
	f.clock.Add(registry.ResetLife.Milliseconds())
	require.Equal(t, http.StatusNotFound, reset(late, "third horse"))
}

// TestMails_Bounds: mails to one address have pauses whatever address asks, and a full queue is 503.
func TestMails_Bounds(t *testing.T) {
	f, box := openWithMail(t)
	ask := func(address string) answer {
		return f.do(t, request{method: http.MethodPost, path: "/v1/password-resets", body: `{"email":"ada@example.com"}`, remote: address + ":1"})
	}
	for i := range registry.FreeAttempts {
		require.Equal(t, http.StatusAccepted, ask("192.0.2."+string(rune('1'+i))).status)
	}
	a := ask("198.51.100.1")
	require.Equal(t, http.StatusTooManyRequests, a.status)
	require.Equal(t, "too many mails to this e-mail address: try again in 1 s", a.body(t)["detail"])
	f.calm(t)
	box.err = mail.ErrFull
	require.Equal(t, http.StatusServiceUnavailable, ask("192.0.2.1").status)
}

// TestMails_None: without a mail server, the routes say so.
func TestMails_None(t *testing.T) {
	f := open(t)
	for path, body := range map[string]string{
		"/v1/password-resets": `{"email":"ada@example.com"}`, "/v1/signup/verify": tokenBody(accesskey.NewToken()[:52]),
	} {
		require.Equal(t, errNoMail.Error(), f.post(t, 0, path, body, http.StatusForbidden).body(t)["detail"])
	}
}
