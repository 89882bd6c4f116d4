package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/internal/accesskey"
	"github.com/freshet-io/freshet/internal/cli"
	"github.com/freshet-io/freshet/internal/etcdserver"
	"github.com/freshet-io/freshet/internal/program"
	"github.com/freshet-io/freshet/internal/testservers"
)

// hosted is a control plane of `freshet controlplane` without virtual clusters, with a caller of `freshet ctl`.
type hosted struct {
	grpc    string
	environ []string
}

// log is the standard error of a command that runs beside the test.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// field returns the value of a field in JSON lines of the log, "" before it appears.
func (l *log) field(name string) string {
	for line := range strings.Lines(l.String()) {
		var fields map[string]any
		if json.Unmarshal([]byte(line), &fields) == nil {
			if value, ok := fields[name].(string); ok {
				return value
			}
		}
	}
	return ""
}

// startHosted runs a control plane with further arguments until the test ends.
func startHosted(t *testing.T, operatorKey string, args ...string) *hosted {
	t.Helper()
	if testing.Short() {
		t.Skip("starts etcd")
	}
	etcd, err := etcdserver.Start(t.Context(), etcdserver.Config{Dir: t.TempDir()}, zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(etcd.Close)
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = socket.Close() })
	go func() { _ = etcd.Serve(socket) }() // until it closes
	files := testservers.NewTLSFiles(t)
	var errs log
	p := freshet()
	p.Streams = cli.Streams{In: strings.NewReader(""), Out: &errs, Err: &errs}
	p.Environ = func() []string { return []string{"FRESHET_OPERATOR_KEY=" + operatorKey} }
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	go func() {
		ended <- p.Run(ctx, append([]string{
			"controlplane", "--etcd", socket.Addr().String(), "--bucket", "file://" + t.TempDir(), "--grpc-listen", "127.0.0.1:0",
			"--http-listen", "none", "--replica-id", "r1", "--log-format", "json",
			"--public-listen", "127.0.0.1:0", "--public-tls-cert", files.Cert, "--public-tls-key", files.Key,
		}, args...))
	}()
	t.Cleanup(func() {
		cancel()
		require.Equal(t, program.ExitOK, <-ended, errs.String())
	})
	require.Eventually(t, func() bool { return errs.field("public_address") != "" || len(ended) > 0 }, time.Minute, 10*time.Millisecond)
	require.NotEmpty(t, errs.field("public_address"), errs.String())
	return &hosted{grpc: errs.field("address"), environ: []string{"FRESHET_URL=https://" + errs.field("public_address"), "FRESHET_TLS_CA=" + files.CA}}
}

// ctl runs a command of `freshet ctl`, requires an exit code and returns both outputs.
func (h *hosted) ctl(t *testing.T, want int, args ...string) (out, errs string) {
	t.Helper()
	code, out, errs := command(t, h.environ, append([]string{"ctl"}, args...)...)
	require.Equal(t, want, code, "%v: %s%s", args, out, errs)
	return strings.TrimSpace(out), errs
}

// TestCtl goes from an empty registry to an agent that is welcome, and back, by commands alone.
func TestCtl(t *testing.T) {
	operatorKey, err := accesskey.New(accesskey.OperatorPrefix, "")
	require.NoError(t, err)
	h := startHosted(t, operatorKey)
	out, errs := h.ctl(t, program.ExitOK, "team", "create", "orders", "--email", "ada@example.com", "--operator-key", operatorKey)
	require.Regexp(t, `^FRESHET_TEAM=\S{22}\nFRESHET_TOKEN=fst_\w+$`, out)
	require.Empty(t, errs)
	first := h.environ
	h.environ = append(h.environ, strings.Split(out, "\n")...)

	out, _ = h.ctl(t, program.ExitOK, "cluster", "create", "main")
	require.Regexp(t, `^cluster main with id \S{22} is active$`, out)
	clusterID := strings.Fields(out)[4]
	out, _ = h.ctl(t, program.ExitOK, "cluster", "list-all", "--operator-key", operatorKey)
	require.Regexp(t, `^CLUSTER ID +TEAM +NAME +STATE +CREATED +TEAM ID +APPROVED +LIMITS\n`+clusterID+` +orders +main +active +20\S+ +\S{22} +yes +memory=128MiB log-bytes=32MiB$`, out)
	out, _ = h.ctl(t, program.ExitOK, "cluster", "limit", clusterID, "--operator-key", operatorKey, "--memory", "64MiB", "--log-bytes=16MiB", "--warm",
		"--topics=1", "--partitions=2", "--groups=3", "--group-members=4", "--transactional-ids=5", "--offset-bytes=6KiB", "--text-bytes=7KiB")
	const limits = "memory=64MiB log-bytes=16MiB warm topics=1 partitions=2 groups=3 group-members=4 transactional-ids=5 offset-bytes=6KiB text-bytes=7KiB"
	require.Equal(t, "cluster main with id "+clusterID+" has the limits: "+limits, out)
	out, _ = h.ctl(t, program.ExitOK, "cluster", "get", "main")
	require.Equal(t, "cluster main with id "+clusterID+" is active, with the limits: "+limits, out)
	out, _ = h.ctl(t, program.ExitOK, "cluster", "limit", clusterID, "--operator-key", operatorKey, "--partitions=0", "--warm=false", "--offset-bytes=0")
	require.Contains(t, out, "log-bytes=16MiB topics=1 groups=3 group-members=4 transactional-ids=5 text-bytes=7KiB")
	_, errs = h.ctl(t, program.ExitFailed, "cluster", "limit", clusterID, "--operator-key", operatorKey, "--memory", "1MiB")
	require.Contains(t, errs, "body.memory_bytes: expected 16777216 to 68719476736, or 0 for the default")
	_, errs = h.ctl(t, program.ExitUsage, "cluster", "limit", clusterID, "--operator-key", operatorKey)
	require.Contains(t, errs, "want one limit or more")
	_, errs = h.ctl(t, program.ExitUsage, "cluster", "limit", clusterID, "--operator-key", operatorKey, "--partitions", "many")
	require.Contains(t, errs, "want a number")
	key, errs := h.ctl(t, program.ExitOK, "key", "create", "main", "agents")
	_, err = accesskey.ClusterOf(accesskey.AgentPrefix, key)
	require.NoError(t, err)
	require.Empty(t, errs)

	require.Equal(t, clusterID, welcome(t, h.grpc, key))

	out, _ = h.ctl(t, program.ExitOK, "key", "list", clusterID, "-o", "json")
	var listed []struct{ ID, Name, Shown string }
	require.NoError(t, json.Unmarshal([]byte(out), &listed))
	require.Len(t, listed, 1)
	require.Equal(t, accesskey.HashOf(key).Digits(), listed[0].ID)
	require.NotContains(t, out, key[len(listed[0].Shown):])
	out, _ = h.ctl(t, program.ExitOK, "key", "revoke", "main", listed[0].ID)
	require.Equal(t, "revoked agent key "+listed[0].ID, out)

	out, _ = h.ctl(t, program.ExitOK, "cluster", "rename", "main", "events")
	require.Equal(t, "cluster events with id "+clusterID+" is active", out)
	h.ctl(t, program.ExitOK, "cluster", "delete", "events")
	out, _ = h.ctl(t, program.ExitOK, "cluster", "list")
	require.Regexp(t, `(?m)^NAME +CLUSTER ID +STATE +CREATED +EXPIRES\nevents +`+clusterID+` +deleted +20`, out)
	out, _ = h.ctl(t, program.ExitOK, "cluster", "undelete", clusterID)
	require.Contains(t, out, "is active")

	reader, _ := h.ctl(t, program.ExitOK, "token", "create", "ci", "--expires", "1h")
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(reader+"\n"), 0o600))
	owner := h.environ
	h.environ = append(first[:len(first):len(first)], owner[len(first)], "FRESHET_TOKEN_FILE="+file)
	out, _ = h.ctl(t, program.ExitOK, "cluster", "get", "events", "-o", "json")
	require.Contains(t, out, `"state": "active"`)
	_, errs = h.ctl(t, program.ExitFailed, "cluster", "create", "more")
	require.Equal(t, "freshet: the role in the team is too low\n", errs)
	h.environ = owner

	out, _ = h.ctl(t, program.ExitOK, "invitation", "create", "bob@example.com", "--role", "admin")
	secret := secretOf(t, out)
	out, _ = h.ctl(t, program.ExitOK, "invitation", "list", "-o", "json")
	require.NotContains(t, out, secret)
	h.ctl(t, program.ExitOK, "invitation", "revoke", accesskey.HashOf(secret).Digits())
	out, _ = h.ctl(t, program.ExitOK, "token", "list")
	require.Regexp(t, `(?m)^ci +read-only .* ada@example\.com `, out)
	h.ctl(t, program.ExitOK, "token", "revoke", accesskey.HashOf(reader).Digits())
	h.ctl(t, program.ExitOK, "team", "rename", "new name")
	out, _ = h.ctl(t, program.ExitOK, "team", "get")
	require.Contains(t, out, "new name")
	out, _ = h.ctl(t, program.ExitOK, "member", "list")
	require.Regexp(t, `(?m)^ada@example.com +ada +owner `, out)
	_, errs = h.ctl(t, program.ExitFailed, "member", "set-role", "ada@example.com", "admin")
	require.Equal(t, "freshet: the team needs another owner first\n", errs)
	_, errs = h.ctl(t, program.ExitFailed, "member", "remove", "ada@example.com")
	require.Equal(t, "freshet: the team needs another owner first\n", errs)
	_, errs = h.ctl(t, program.ExitFailed, "team", "leave")
	require.Equal(t, "freshet: the team needs another owner first\n", errs)
	_, errs = h.ctl(t, program.ExitFailed, "cluster", "get", "none")
	require.Equal(t, "freshet: the team has no cluster \"none\"\n", errs)
	_, errs = h.ctl(t, program.ExitFailed, "cluster", "create", "a/b")
	require.Contains(t, errs, "validation failed; body.name: expected 1 to 249 letters")
	out, _ = h.ctl(t, program.ExitOK, "audit")
	require.Regexp(t, `(?m)^20\S+ +team\.create +\S{22} +operator key [0-9a-f]{8} +127\.0\.0\.1$`, out)
	require.Regexp(t, `(?m)^20\S+ +team\.rename +\S{22} +ada@example\.com token first token +127\.0\.0\.1$`, out)
}

// secretOf returns the secret in the command that accepts an invitation.
func secretOf(t *testing.T, out string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^FRESHET_PASSWORD=\.\.\. freshet ctl invitation accept \S+ (\w{52}) `).FindStringSubmatch(out)
	require.Len(t, found, 2, out)
	return found[1]
}

// TestCtl_Invitation runs the commands that `freshet ctl invitation create` prints, for an e-mail address without an account and for one with.
func TestCtl_Invitation(t *testing.T) {
	h := startHosted(t, "operator", "--signup", "open")
	anyone := h.environ
	as := func(environ ...string) { h.environ = append(anyone[:len(anyone):len(anyone)], environ...) }
	// run runs a command of an output as its reader does, without the settings of the writer.
	run := func(want int, line, password string, more ...string) (out, errs string) {
		words, ok := strings.CutPrefix(line, "FRESHET_PASSWORD=... freshet ctl ")
		require.True(t, ok, line)
		as("FRESHET_PASSWORD=" + password)
		return h.ctl(t, want, append(strings.Fields(words), more...)...)
	}
	lastLine := func(out string) string { return out[strings.LastIndex(out, "\n")+1:] }
	logIn := func(email string) {
		as("FRESHET_PASSWORD=correct horse")
		out, _ := h.ctl(t, program.ExitOK, "login", email)
		as(strings.Split(out, "\n")...)
	}
	as("FRESHET_PASSWORD=correct horse")
	for _, email := range []string{"ada@example.com", "bob@example.com"} {
		h.ctl(t, program.ExitOK, "signup", email, "orders", "main")
	}
	for _, c := range []struct {
		email        string
		wrong, right []string
		says         string
	}{
		{"carol@example.com", nil, []string{"--signup"}, "the e-mail address or the password is wrong"},
		{"bob@example.com", []string{"--signup"}, nil, "the e-mail address has an account: accept the invitation with its password, without a sign-up"},
	} {
		logIn("ada@example.com")
		out, errs := h.ctl(t, program.ExitOK, "invitation", "create", c.email)
		require.Empty(t, errs)
		accept := lastLine(out)
		_, errs = run(program.ExitFailed, accept, "correct horse", c.wrong...)
		require.Contains(t, errs, c.says)
		out, errs = run(program.ExitOK, accept, "correct horse", c.right...)
		require.Empty(t, errs)
		_, next, _ := strings.Cut(out, "joined team orders; to get an API token: ")
		out, _ = run(program.ExitOK, next, "correct horse")
		as(strings.Split(out, "\n")...)
		out, _ = h.ctl(t, program.ExitOK, "member", "list")
		require.Regexp(t, `(?m)^`+c.email+` .* member `, out)
	}
	as("FRESHET_PASSWORD=correct horse")
	_, errs := h.ctl(t, program.ExitUsage, "invitation", "accept", "bob@example.com", "secret")
	require.Contains(t, errs, "want --team")
}

// welcome runs an agent with a key until a control plane welcomes it, and returns the cluster.
func welcome(t *testing.T, address, key string) string {
	t.Helper()
	heard := welcomes(make(chan *api.Welcome, 8))
	agent, err := client.New(client.Config{Replicas: []string{address}, AgentKey: key, Endpoints: []*api.Endpoint{{Host: "a", Port: 1}}, Handler: heard})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(ctx) }()
	clusterID := (<-heard).ClusterId
	cancel()
	require.NoError(t, <-ended)
	return clusterID
}

// TestCtl_SignUp goes from an empty registry to an agent that is welcome, without an operator. The owner then logs in.
func TestCtl_SignUp(t *testing.T) {
	h := startHosted(t, "operator", "--signup", "open")
	first := h.environ
	h.environ = append(first, "FRESHET_PASSWORD=correct horse")
	began := time.Now()
	out, errs := h.ctl(t, program.ExitOK, "signup", "ada@example.com", "orders", "main")
	require.Empty(t, errs)
	settings := map[string]string{}
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		settings[name] = value
	}
	require.Equal(t, h.grpc, settings["FRESHET_CONTROL_PLANE"])
	clusterID, err := accesskey.ClusterOf(accesskey.AgentPrefix, settings["FRESHET_AGENT_KEY"])
	require.NoError(t, err)
	require.Equal(t, clusterID, welcome(t, settings["FRESHET_CONTROL_PLANE"], settings["FRESHET_AGENT_KEY"]))
	t.Logf("an agent was welcome %v after the sign-up began", time.Since(began))

	out, errs = h.ctl(t, program.ExitOK, "login", "ada@example.com")
	require.Regexp(t, `^FRESHET_TEAM=`+settings["FRESHET_TEAM"]+`\nFRESHET_TOKEN=fst_\w+$`, out)
	require.Empty(t, errs)
	_, errs = h.ctl(t, program.ExitUsage, "login", "ada@example.com", "--team", "none")
	require.Contains(t, errs, `the account has the teams `+settings["FRESHET_TEAM"]+" (orders)")
	h.environ = append(first, strings.Split(out, "\n")...)
	out, _ = h.ctl(t, program.ExitOK, "cluster", "list")
	require.Contains(t, out, clusterID)
	out, _ = h.ctl(t, program.ExitOK, "token", "list", "-o", "json")
	require.Regexp(t, `"name": "freshet ctl login",\s+"role": "owner"`, out)

	_, errs = h.ctl(t, program.ExitFailed, "login", "ada@example.com", "--password", "wrong horse")
	require.Contains(t, errs, "the e-mail address or the password is wrong")
	_, errs = h.ctl(t, program.ExitFailed, "signup", "ada@example.com", "orders", "main", "--password", "wrong horse")
	require.Contains(t, errs, "the e-mail address has an account: log in, or repeat the sign-up with the same password, team and cluster for another key")
	_, errs = h.ctl(t, program.ExitFailed, "signup", "bob@example.com", "orders", "main", "--password", "short")
	require.Contains(t, errs, "body.password: ")
	_, errs = h.ctl(t, program.ExitUsage, "login", "ada@example.com")
	require.Contains(t, errs, "want --password or --password-file")

	out, _ = h.ctl(t, program.ExitOK, "password", "ada@example.com", "--password", "correct horse", "--new-password", "another horse")
	require.Equal(t, "changed the password of ada@example.com", out)
	h.ctl(t, program.ExitFailed, "login", "ada@example.com", "--password", "correct horse")
	h.ctl(t, program.ExitOK, "login", "ada@example.com", "--password", "another horse")
}

// TestCtl_Life suspends, resumes, deletes and purges a cluster that an agent has used.
func TestCtl_Life(t *testing.T) {
	operatorKey, err := accesskey.New(accesskey.OperatorPrefix, "")
	require.NoError(t, err)
	h := startHosted(t, operatorKey)
	out, _ := h.ctl(t, program.ExitOK, "team", "create", "orders", "--email", "ada@example.com", "--operator-key", operatorKey)
	h.environ = append(h.environ, strings.Split(out, "\n")...)
	h.ctl(t, program.ExitOK, "cluster", "create", "main")
	key, _ := h.ctl(t, program.ExitOK, "key", "create", "main", "agents")
	clusterID := welcome(t, h.grpc, key)

	out, _ = h.ctl(t, program.ExitOK, "cluster", "suspend", "main")
	require.Equal(t, "cluster main with id "+clusterID+" is suspended", out)
	_, errs := h.ctl(t, program.ExitFailed, "cluster", "purge", "main")
	require.Contains(t, errs, "the cluster is not deleted")
	out, _ = h.ctl(t, program.ExitOK, "cluster", "resume", "main")
	require.Equal(t, "cluster main with id "+clusterID+" is active", out)
	require.Equal(t, clusterID, welcome(t, h.grpc, key))

	out, _ = h.ctl(t, program.ExitOK, "cluster", "block", clusterID, "--operator-key", operatorKey)
	require.Equal(t, "cluster main with id "+clusterID+" is suspended (blocked)", out)
	_, errs = h.ctl(t, program.ExitFailed, "cluster", "resume", "main")
	require.Contains(t, errs, "an operator of the control plane has suspended the cluster: ask the operator to resume it")
	out, _ = h.ctl(t, program.ExitOK, "cluster", "list")
	require.Regexp(t, clusterID+` +suspended \(blocked\) +20`, out)
	out, _ = h.ctl(t, program.ExitOK, "cluster", "unblock", clusterID, "--operator-key", operatorKey)
	require.Equal(t, "cluster main with id "+clusterID+" is active", out)
	require.Equal(t, clusterID, welcome(t, h.grpc, key))

	out, _ = h.ctl(t, program.ExitOK, "cluster", "delete", "main")
	require.Contains(t, out, "under "+clusterID+"/; to remove them then: aws s3 rm --recursive ")
	_, errs = h.ctl(t, program.ExitFailed, "cluster", "create", "main")
	require.Contains(t, errs, "free the name with `freshet ctl cluster purge`")
	out, _ = h.ctl(t, program.ExitOK, "cluster", "purge", "main")
	require.Contains(t, out, "is removed within seconds")
	require.Eventually(t, func() bool {
		out, _ := h.ctl(t, program.ExitOK, "cluster", "list", "-o", "json")
		return out == "[]"
	}, time.Minute, 100*time.Millisecond)
	h.ctl(t, program.ExitOK, "cluster", "create", "main")
}

// TestControlPlane_SignUpClosed: without --signup, sign-up is refused.
func TestControlPlane_SignUpClosed(t *testing.T) {
	h := startHosted(t, "operator")
	_, errs := h.ctl(t, program.ExitFailed, "signup", "ada@example.com", "orders", "main", "--password", "correct horse")
	require.Contains(t, errs, "this sign-up is closed")
}

// welcomes has the welcomes of an agent.
type welcomes chan *api.Welcome

func (w welcomes) OnWelcome(welcome *api.Welcome) { w <- welcome }
func (welcomes) OnPeerSecret(string)              {}
func (welcomes) OnCatalogue(*api.Catalogue)       {}
func (welcomes) OnNotice(*api.Notice)             {}
func (welcomes) OnDisconnect()                    {}
func (welcomes) OnSessionClosed()                 {}

func TestControlPlane_PublicListenNeedsACertificate(t *testing.T) {
	common := []string{"controlplane", "--etcd", "127.0.0.1:1", "--bucket", "mem://"}
	for says, args := range map[string][]string{
		"--public-listen has no certificate: set --public-tls-cert and --public-tls-key": {"--public-listen", "127.0.0.1:0"},
		"TLS of --public-listen: TLS needs a certificate and its key":                    {"--public-listen", "127.0.0.1:0", "--public-tls-cert", "x.pem"},
		"TLS of --public-listen: read certificate: open none.pem":                        {"--public-listen", "127.0.0.1:0", "--public-tls-cert", "none.pem", "--public-tls-key", "none.pem"},
		"--signup open without --public-listen":                                          {"--signup", "open"},
		`--trusted-proxies "10.0.0.1/8" is no network`:                                   {"--trusted-proxies", "10.0.0.0/8,10.0.0.1/8"},
		`--trusted-proxies "proxy" is no network`:                                        {"--trusted-proxies", "proxy"},
		"--mail-from without --smtp-url":                                                 {"--mail-from", "freshet@example.com"},
		"no --mail-from: set it": {
			"--public-listen", "127.0.0.1:0", "--public-url", "https://cp.example.com", "--smtp-url", "smtps://mail.example.com",
		},
		"--virtual-cluster is needed": nil,
	} {
		code, _, errs := command(t, nil, append(common, args...)...)
		require.Equal(t, program.ExitUsage, code, errs)
		require.Contains(t, errs, says)
	}
}
