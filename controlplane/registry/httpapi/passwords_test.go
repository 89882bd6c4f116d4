package httpapi

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/registry"
)

// attempt counts an attempt several times.
func (f *fixture) attempt(t *testing.T, times int, a registry.Attempt) {
	t.Helper()
	for range times {
		require.NoError(t, f.reg.Attempt(t.Context(), a))
	}
}

// TestLogIn_Rate: once the rate of all logins is reached, an address from which the account has logged in before still logs in, and a refused login
// is not counted anywhere.
func TestLogIn_Rate(t *testing.T) {
	f := open(t)
	f.setPassword(t, f.other.id) // has logged in from 192.0.2.1
	f.attempt(t, registry.MaxLogins-1, registry.Attempt{Kind: registry.Logins})
	require.Equal(t, http.StatusCreated, f.logInFrom(t, 0, f.other.email, rightPassword, "198.51.100.1").status, "the last one of the window")
	for range 2 * registry.FreeAttempts {
		a := f.logInFrom(t, 1, f.other.email, rightPassword, "198.51.100.2")
		require.Equal(t, http.StatusTooManyRequests, a.status, "a success counts too")
		require.Equal(t, "10", a.header.Get("Retry-After"))
		require.Equal(t, "too many logins of all accounts: try again in 10 s", a.body(t)["detail"])
	}
	for _, address := range []string{"192.0.2.1", "198.51.100.1"} {
		require.Equal(t, http.StatusCreated, f.logInFrom(t, 1, f.other.email, rightPassword, address).status)
	}
	f.clock.Add(registry.LoginsWindow.Milliseconds())
	require.Equal(t, http.StatusUnauthorized, f.logInFrom(t, 1, f.other.email, "wrong", "198.51.100.2").status)
}

// TestSignUp_Rate: sign-ups of all networks share a rate. Logins go on.
func TestSignUp_Rate(t *testing.T) {
	f := open(t)
	f.setPassword(t, f.other.id)
	f.attempt(t, registry.MaxSignUps-1, registry.Attempt{Kind: registry.SignUps})
	signUp := func(address string, status int) answer {
		body := signUpBodyOf(name("ada")+"@example.com", rightPassword, "data", "main")
		a := f.do(t, request{method: http.MethodPost, path: "/v1/signup", body: body, remote: address + ":1"})
		require.Equal(t, status, a.status, a.text)
		return a
	}
	signUp("192.0.2.7", http.StatusCreated)
	a := signUp("198.51.100.7", http.StatusTooManyRequests)
	require.Equal(t, "60", a.header.Get("Retry-After"))
	require.Equal(t, "too many sign-ups of all clients: try again in 60 s", a.body(t)["detail"])
	require.Equal(t, http.StatusCreated, f.logInFrom(t, 0, f.other.email, rightPassword, "198.51.100.7").status)
	f.clock.Add(registry.SignUpsWindow.Milliseconds())
	signUp("198.51.100.7", http.StatusCreated)
}

// TestLogIn_Networks: the addresses of a network share its free attempts, which are more than those of an address.
func TestLogIn_Networks(t *testing.T) {
	for _, c := range []struct{ network, first, second, elsewhere string }{
		{"2001:db8:1::/48", "[2001:db8:1:1::1]", "[2001:db8:1:ffff::1]", "[2001:db8:2::1]"},
		{"198.51.100.0/24", "198.51.100.1", "198.51.100.255", "198.51.101.1"},
	} {
		t.Run(c.network, func(t *testing.T) {
			f := open(t)
			f.attempt(t, registry.FreeNetworkAttempts-1, registry.Attempt{Kind: registry.LoginsFromNetwork, Subject: c.network})
			from := func(address string) int {
				return f.logInFrom(t, 0, name("unknown")+"@example.com", "wrong", address).status
			}
			require.Equal(t, http.StatusUnauthorized, from(c.first))
			require.Equal(t, http.StatusTooManyRequests, from(c.second))
			require.Equal(t, http.StatusUnauthorized, from(c.elsewhere))
			f.clock.Add(time.Second.Milliseconds())
			require.Equal(t, http.StatusUnauthorized, from(c.second))
		})
	}
}

// TestSignUp_PausesNoLogin: sign-ups pause no logins from their address.
func TestSignUp_PausesNoLogin(t *testing.T) {
	f := open(t)
	f.attempt(t, registry.FreeAttempts, registry.Attempt{Kind: registry.SignUpsFromHost, Subject: "192.0.2.9"})
	require.Equal(t, http.StatusUnauthorized, f.logInFrom(t, 0, f.other.email, "wrong", "192.0.2.9").status)
}

func TestHostAndNetwork(t *testing.T) {
	for address, want := range map[string][2]string{
		"192.0.2.7":         {"192.0.2.7", "192.0.2.0/24"},
		"2001:db8:1:2:3::4": {"2001:db8:1:2::/64", "2001:db8:1::/48"},
		"":                  {"", ""},
	} {
		require.Equal(t, want, [2]string{host(address), network(address)}, address)
	}
}

// TestChangePassword: the new password logs in, and other sessions end. A wrong old one is a failed login.
func TestChangePassword(t *testing.T) {
	f := open(t)
	f.signUp(t, 0, signUpBodyOf("ada@example.com", rightPassword, "data", "main"))
	session := func(password string) string {
		a := f.logInFrom(t, 0, "ada@example.com", password, "192.0.2.1")
		require.Equal(t, http.StatusCreated, a.status, a.text)
		return a.body(t)["session"].(string)
	}
	change := func(session, old string, status int) answer {
		r := request{method: http.MethodPut, path: "/v1/account/password", body: `{"old":"` + old + `","new":"another horse"}`}
		a := f.doOn(t, 1, r.cookie(session))
		require.Equal(t, status, a.status, a.text)
		require.NotContains(t, a.text, "horse")
		return a
	}
	mine, other := session(rightPassword), session(rightPassword)
	require.Equal(t, "the old password is wrong", change(mine, "wrong", http.StatusForbidden).body(t)["detail"])
	change(other, rightPassword, http.StatusNoContent)
	change(mine, "another horse", http.StatusUnauthorized)
	require.Equal(t, http.StatusUnauthorized, f.logInFrom(t, 0, "ada@example.com", rightPassword, "192.0.2.1").status)
	session("another horse")
	for range registry.FreeAttempts {
		f.do(t, request{method: http.MethodPut, path: "/v1/account/password", body: `{"old":"wrong","new":"another horse"}`}.cookie(other))
	}
	change(other, "another horse", http.StatusTooManyRequests)
}
