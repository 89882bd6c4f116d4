package ctl

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/registry/httpapi"
	"github.com/freshet-io/freshet/internal/cli"
	"github.com/freshet-io/freshet/internal/tlsfiles"
)

// Config has the address of the HTTP API, and the caller's team and secret.
type Config struct {
	URL         string
	Team        string // ID
	Token       string // API token
	TokenFile   string // file of Token
	OperatorKey string // for CreateTeam, ApproveTeam, ListAllClusters, LimitCluster, BlockCluster and UnblockCluster; of several with commas, the first
	Password    Secret // for SignUp, LogIn and ChangePassword
	CA          string // PEM file or text of certificates to trust; "" means the system's
	Timeout     time.Duration
}

// ApplyDefaults sets fields that are zero to their defaults.
func (c *Config) ApplyDefaults() {
	if c.Timeout == 0 {
		c.Timeout = 30 * time.Second
	}
}

// Bounds of what a client reads, in bytes.
const (
	maxSecretFile = 4 << 10
	maxAnswer     = 4 << 20
)

func usagef(format string, args ...any) error {
	return &cli.UsageError{Message: fmt.Sprintf(format, args...)}
}

// api is a caller of the HTTP API.
type api struct {
	http   *http.Client
	base   string // without a slash at the end
	team   string // path of the team
	secret string // API token or operator key, "" without one
	// session is the secret of a session, in place of secret.
	session string
}

// missing is a setting that a command needs, and whether it is absent.
type missing struct {
	setting string
	absent  bool
}

// want returns an error that names the absent settings, or nil.
func want(all ...missing) error {
	var names []string
	for _, m := range all {
		if m.absent {
			names = append(names, m.setting)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return usagef("want %s", strings.Join(names, ", and "))
}

// tenant returns the API with the team's token.
func (c *Config) tenant() (*api, error) {
	if err := want(missing{"--url", c.URL == ""}, missing{"--team", c.Team == ""}, missing{"--token or --token-file", c.Token == "" && c.TokenFile == ""}); err != nil {
		return nil, err
	}
	if c.Token != "" && c.TokenFile != "" {
		return nil, usagef("--token and --token-file exclude each other")
	}
	token := c.Token
	if c.TokenFile != "" {
		var err error
		if token, err = readLine("--token-file", c.TokenFile); err != nil {
			return nil, err
		}
		if strings.ContainsAny(token, " \t") {
			return nil, fmt.Errorf("--token-file %s: want one API token", c.TokenFile)
		}
	}
	a, err := c.api(token)
	if err == nil {
		a.team = "/v1/teams/" + url.PathEscape(c.Team)
	}
	return a, err
}

// operator returns the API with the operator key.
func (c *Config) operator() (*api, error) {
	key, _, _ := strings.Cut(c.OperatorKey, ",") // the environment of a control plane has all of its keys
	if err := want(missing{"--url", c.URL == ""}, missing{"--operator-key", key == ""}); err != nil {
		return nil, err
	}
	return c.api(key)
}

func (c *Config) api(secret string) (*api, error) {
	c.ApplyDefaults()
	base, err := url.Parse(c.URL)
	if err != nil || base.Scheme != "https" || base.Host == "" || base.RawQuery != "" || base.User != nil {
		return nil, usagef("--url %q: want https://, host and port, such as https://cp.example.com:8443", c.URL)
	}
	trust, err := tlsfiles.Files{CA: c.CA}.Client(true, zap.NewNop())
	if err != nil {
		return nil, usagef("--tls-ca: %v", err)
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: trust, ForceAttemptHTTP2: true}
	return &api{
		base: strings.TrimSuffix(base.String(), "/"), secret: secret,
		http: &http.Client{
			Transport: transport, Timeout: c.Timeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the secret is for this server
		},
	}, nil
}

// account returns the API for an account without a team, and the account's password.
func (c *Config) account() (a *api, password string, err error) {
	if c.URL == "" {
		return nil, "", usagef("want --url, and --password or --password-file")
	}
	if password, err = c.Password.read("--password"); err != nil {
		return nil, "", err
	}
	a, err = c.api("")
	return a, password, err
}

// anyone returns the API for requests without a secret.
func (c *Config) anyone() (*api, error) {
	if c.URL == "" {
		return nil, usagef("want --url")
	}
	return c.api("")
}

// Secret is a text, or the path of a file with it as the only line.
type Secret struct{ Text, File string }

// read returns the text. flag is the flag of the text, and with -file that of the file.
func (s Secret) read(flag string) (string, error) {
	switch {
	case s.Text == "" && s.File == "":
		return "", usagef("want %s or %s-file", flag, flag)
	case s.Text != "" && s.File != "":
		return "", usagef("%s and %s-file exclude each other", flag, flag)
	case s.File != "":
		return readLine(flag+"-file", s.File)
	}
	return s.Text, nil
}

// readLine returns the only line of a file.
func readLine(flag, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSecretFile))
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	line := strings.TrimSpace(string(text))
	if line == "" || strings.ContainsAny(line, "\r\n") {
		return "", fmt.Errorf("%s %s: want one line", flag, path)
	}
	return line, nil
}

// call makes a request and decodes the answer into an object, unless into is nil.
func (a *api) call(ctx context.Context, method, path string, body, into any) error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encode the request: %w", err)
		}
		content = bytes.NewReader(text)
	}
	ctx, sent := cli.TraceSent(ctx)
	request, err := http.NewRequestWithContext(ctx, method, a.base+path, content)
	if err != nil {
		return usagef("--url: %v", err)
	}
	if a.secret != "" {
		request.Header.Set("Authorization", "Bearer "+a.secret)
	}
	if a.session != "" {
		request.AddCookie(&http.Cookie{Name: httpapi.SessionCookie, Value: a.session})
		request.Header.Set("Origin", a.base)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := a.http.Do(request)
	if err != nil {
		return unanswered(method, sent(), err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return unanswered(method, sent(), err)
	}
	if response.StatusCode/100 != 2 {
		return a.refused(response, text)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("answer of %s: %w", a.base, err)
	}
	return nil
}

// unanswered returns the error of a request without an answer. The error of net/http has the URL, which has no secret.
func unanswered(method string, sent bool, err error) error {
	if method == http.MethodGet || !sent {
		return cli.ExplainCertificate(err, cli.TrustByFlag)
	}
	return fmt.Errorf("%w; the change may have been made: look before you repeat it", err)
}

// refused returns the error in an answer: the detail of its problem, and the faults of fields.
func (a *api) refused(response *http.Response, text []byte) error {
	var p httpapi.Problem
	if json.Unmarshal(text, &p) != nil || p.Detail == "" {
		return fmt.Errorf("--url %s answers %s, but not as the HTTP API for tenants does: give the address of --public-listen of a control plane", a.base, response.Status)
	}
	said := []string{p.Detail}
	for _, f := range p.Errors {
		said = append(said, f.Location+": "+f.Message)
	}
	return &refusal{response.StatusCode, strings.Join(said, "; ")}
}

// refusal is the error in an answer.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

// all returns the items of all pages of a list, and the number of records that the server could not read.
func all[T any](ctx context.Context, a *api, path string) (items []T, unreadable int, err error) {
	items = []T{}
	for next := ""; ; {
		var page httpapi.Page[T]
		if err := a.call(ctx, http.MethodGet, path+next, nil, &page); err != nil {
			return nil, 0, err
		}
		items = append(items, page.Items...)
		if page.Next == "" || len(page.Items) == 0 {
			return items, page.Unreadable, nil
		}
		next = "?cursor=" + url.QueryEscape(page.Next)
	}
}

// find returns the item of a list whose first field is a text, or else the second one.
func find[T any](ctx context.Context, a *api, path, kind, text string, fields func(T) (id, name string)) (found T, err error) {
	items, _, err := all[T](ctx, a, path)
	if err != nil {
		return found, err
	}
	for _, item := range items {
		if id, _ := fields(item); id == text {
			return item, nil
		}
	}
	for _, item := range items {
		if _, name := fields(item); name == text {
			return item, nil
		}
	}
	return found, fmt.Errorf("the team has no %s %q", kind, text)
}
