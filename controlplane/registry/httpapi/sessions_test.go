package httpapi

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/registry"
)

func logInBody(email, password string) string {
	return `{"email":"` + email + `","password":"` + password + `"}`
}

// logInFrom logs in from an address and returns the answer.
func (f *fixture) logInFrom(t *testing.T, replica int, email, password, address string) answer {
	t.Helper()
	return f.doOn(t, replica, request{method: http.MethodPost, path: "/v1/sessions", body: logInBody(email, password), remote: address + ":1"})
}

// TestLogIn signs up, logs in, makes a change by the session and logs out.
func TestLogIn(t *testing.T) {
	f := open(t)
	made := f.signUp(t, 0, signUpBodyOf("ada@example.com", rightPassword, "data", "main"))
	a := f.logInFrom(t, 1, " ADA@example.com", rightPassword, "192.0.2.9")
	require.Equal(t, http.StatusCreated, a.status, a.text)
	body := a.body(t)
	secret := body["session"].(string)
	require.Len(t, secret, 52)
	require.Equal(t, made.Account, body["account"])
	team := body["teams"].([]any)[0].(map[string]any)
	require.Equal(t, []any{made.Team.ID, "data", "owner"}, []any{team["id"], team["name"], team["role"]})
	cookies := (&http.Response{Header: a.header}).Cookies()
	require.Len(t, cookies, 1)
	require.Equal(t, secret, cookies[0].Value)
	require.Equal(t, []any{SessionCookie, "/", true, true, http.SameSiteLaxMode, ""},
		[]any{cookies[0].Name, cookies[0].Path, cookies[0].Secure, cookies[0].HttpOnly, cookies[0].SameSite, cookies[0].Domain})
	path := "/v1/teams/" + made.Team.ID
	require.Equal(t, http.StatusOK, f.do(t, request{method: http.MethodPatch, path: path, body: `{"name":"x"}`}.cookie(secret)).status)
	require.Equal(t, http.StatusNoContent, f.do(t, request{method: http.MethodDelete, path: "/v1/sessions/current"}.cookie(secret)).status)
	require.Equal(t, http.StatusUnauthorized, f.do(t, request{method: http.MethodGet, path: path}.cookie(secret)).status)

	again := f.logInFrom(t, 0, "ada@example.com", rightPassword, "192.0.2.9").body(t)["session"].(string)
	f.clock.Add(sessionLife.Milliseconds())
	require.Equal(t, http.StatusUnauthorized, f.do(t, request{method: http.MethodGet, path: path}.cookie(again)).status)
}

// TestLogIn_Refused: a wrong password, an unknown e-mail address and an account without a password have one answer.
func TestLogIn_Refused(t *testing.T) {
	f := open(t)
	f.setPassword(t, f.other.id)
	var first answer
	for i, c := range []struct{ email, password string }{
		{f.other.email, "wrong"}, {"unknown@example.com", rightPassword}, {f.accounts[registry.Admin].email, rightPassword},
	} {
		a := f.logInFrom(t, 0, c.email, c.password, "192.0.2.9")
		if i == 0 {
			first = a
		}
		require.Equal(t, first, a)
		require.Equal(t, http.StatusUnauthorized, a.status, a.text)
	}
	a := f.logInFrom(t, 0, "unknown", rightPassword, "192.0.2.9")
	require.Equal(t, http.StatusUnprocessableEntity, a.status)
	require.NotContains(t, a.text, rightPassword)
	elsewhere := request{method: http.MethodPost, path: "/v1/sessions", body: logInBody(f.other.email, rightPassword), header: http.Header{"Origin": {"https://elsewhere.example"}}}
	require.Equal(t, http.StatusForbidden, f.do(t, elsewhere).status, "a page elsewhere")
}

// TestLogIn_Pauses: attempts from many addresses pause an account, but not for the address from which it has logged in before. Attempts on many accounts
// pause an address.
func TestLogIn_Pauses(t *testing.T) {
	f := open(t)
	f.setPassword(t, f.other.id) // has logged in from 192.0.2.1
	for i := range registry.FreeAttempts {
		require.Equal(t, http.StatusUnauthorized, f.logInFrom(t, i%2, f.other.email, "wrong", "198.51.100."+string(rune('1'+i))).status)
	}
	a := f.logInFrom(t, 0, f.other.email, rightPassword, "198.51.100.99")
	require.Equal(t, http.StatusTooManyRequests, a.status, "an unknown address, with the right password")
	require.Equal(t, "1", a.header.Get("Retry-After"))
	for range 2 * registry.FreeAttempts {
		require.Equal(t, http.StatusCreated, f.logInFrom(t, 1, f.other.email, rightPassword, "192.0.2.1").status)
	}
	f.clock.Add(time.Second.Milliseconds())
	require.Equal(t, http.StatusCreated, f.logInFrom(t, 0, f.other.email, rightPassword, "198.51.100.99").status)

	for range registry.FreeAttempts {
		require.Equal(t, http.StatusUnauthorized, f.logInFrom(t, 0, name("unknown")+"@example.com", "wrong", "[2001:db8::1]").status)
	}
	require.Equal(t, http.StatusTooManyRequests, f.logInFrom(t, 1, name("unknown")+"@example.com", "wrong", "[2001:db8::2]").status, "the same /64")
	require.Equal(t, http.StatusUnauthorized, f.logInFrom(t, 1, name("unknown")+"@example.com", "wrong", "[2001:db8:0:1::2]").status)

	for range registry.FreeAttempts {
		require.Equal(t, http.StatusUnauthorized, f.logInFrom(t, 0, f.other.email, "wrong", "192.0.2.1").status)
	}
	require.Equal(t, http.StatusTooManyRequests, f.logInFrom(t, 0, f.other.email, rightPassword, "192.0.2.1").status, "attempts of its own")
}

func TestAddressOf(t *testing.T) {
	f := open(t)
	for _, c := range []struct {
		name, remote string
		forwarded    []string
		want         string
	}{
		{"no proxy", "192.0.2.1:1", nil, "192.0.2.1"},
		{"a client's own header", "192.0.2.1:1", []string{"192.0.2.7"}, "192.0.2.1"},
		{"a proxy", "10.1.2.3:1", []string{"192.0.2.7"}, "192.0.2.7"},
		{"a forged address before the proxy's", "10.1.2.3:1", []string{"192.0.2.8, 192.0.2.7"}, "192.0.2.7"},
		{"two proxies", "10.1.2.3:1", []string{"192.0.2.8", "192.0.2.7,10.9.9.9"}, "192.0.2.7"},
		{"a proxy without the header", "10.1.2.3:1", nil, "10.1.2.3"},
		{"no address", "10.1.2.3:1", []string{"192.0.2.8, unknown"}, "10.1.2.3"},
		{"IPv6", "[::ffff:10.1.2.3]:1", []string{"2001:db8::7"}, "2001:db8::7"},
		{"no port", "192.0.2.1", nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
			r.RemoteAddr, r.Header["X-Forwarded-For"] = c.remote, c.forwarded
			require.Equal(t, c.want, f.handlers[0].addressOf(r))
		})
	}
}
