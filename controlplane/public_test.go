package controlplane_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/freshet-io/freshet/controlplane"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/controlplane/operator"
	"github.com/freshet-io/freshet/controlplane/registry"
	"github.com/freshet-io/freshet/controlplane/registry/httpapi"
	"github.com/freshet-io/freshet/internal/accesskey"
	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/internal/tlsfiles"
	"github.com/freshet-io/freshet/metadata/metalog/etcdlog"
	"github.com/freshet-io/freshet/objstore/mem"
)

// tenant calls the HTTP API of a replica.
type tenant struct {
	client *http.Client
	url    string
	token  string
}

// newTenant returns a tenant that trusts the certificate authority of files.
func newTenant(t *testing.T, files *testservers.TLSFiles, r *running, token string) *tenant {
	t.Helper()
	config, err := tlsfiles.Files{CA: files.CA}.Client(true, zap.NewNop())
	require.NoError(t, err)
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &tenant{client: &http.Client{Transport: transport}, url: "https://" + r.PublicAddr().String(), token: token}
}

// call makes a request, requires a status and returns the answer's fields.
func (c *tenant) call(t *testing.T, method, path string, body map[string]string, want int) map[string]any {
	t.Helper()
	text, err := json.Marshal(body)
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), method, c.url+path, bytes.NewReader(text))
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("Content-Type", "application/json")
	response, err := c.client.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, want, response.StatusCode)
	require.Equal(t, 2, response.ProtoMajor)
	require.GreaterOrEqual(t, response.TLS.Version, uint16(tls.VersionTLS12))
	fields := map[string]any{}
	if want != http.StatusNoContent {
		require.NoError(t, json.NewDecoder(response.Body).Decode(&fields))
	}
	return fields
}

// TestControlPlane_ServesTenants: an operator creates the first team, and its owner a virtual cluster and an agent key, through one replica without virtual
// clusters of its own. Both replicas serve an agent with this key, until the owner revokes it through the other replica.
func TestControlPlane_ServesTenants(t *testing.T) {
	files := testservers.NewTLSFiles(t)
	served, err := tlsfiles.Files{Cert: files.Cert, Key: files.Key}.Server(zap.NewNop())
	require.NoError(t, err)
	operatorKey, err := accesskey.New(accesskey.OperatorPrefix, "")
	require.NoError(t, err)
	hosted := func(c *controlplane.Config) {
		c.VirtualClusters, c.PublicListen, c.PublicTLS, c.OperatorKeys = nil, "127.0.0.1:0", served, []string{"operator", operatorKey}
	}
	etcd, bucket := startEtcd(t), mem.New()
	first, second := startAs(t, etcd, bucket, "r1", hosted), startAs(t, etcd, bucket, "r2", hosted)
	for _, r := range []*running{first, second} {
		require.Eventually(t, func() bool { return r.Ready() == nil }, time.Minute, 10*time.Millisecond)
	}

	created := newTenant(t, files, first, operatorKey).call(t, http.MethodPost, "/v1/teams", map[string]string{"name": "team", "email": "owner@example.com"}, http.StatusCreated)
	team := "/v1/teams/" + created["team"].(map[string]any)["id"].(string)
	token := created["token"].(map[string]any)["token"].(string)
	owner, elsewhere := newTenant(t, files, first, token), newTenant(t, files, second, token)
	began := time.Now()
	clusterID := owner.call(t, http.MethodPost, team+"/clusters", map[string]string{"name": "orders"}, http.StatusCreated)["id"].(string)
	agentKeys := team + "/clusters/" + clusterID + "/agent-keys"
	key := owner.call(t, http.MethodPost, agentKeys, map[string]string{"name": "agents"}, http.StatusCreated)

	require.Eventually(t, func() bool { return first.Idle(clusterID) != second.Idle(clusterID) }, time.Minute, 10*time.Millisecond, "idle at its owner")

	h := heard{welcomes: make(chan *api.Welcome, 8)}
	agent, err := client.New(client.Config{
		Replicas: []string{second.Addr().String(), first.Addr().String()}, AgentKey: key["key"].(string), Endpoints: []*api.Endpoint{{Host: "a", Port: 1}}, Handler: h,
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(ctx) }()
	require.Equal(t, clusterID, (<-h.welcomes).ClusterId)
	require.False(t, first.Idle(clusterID) || second.Idle(clusterID))
	records := registry.New(registry.Config{Client: etcd.Client(), Prefix: etcdlog.DefaultPrefix})
	require.Eventually(t, func() bool {
		c, err := records.Cluster(t.Context(), clusterID)
		return err == nil && !c.Contacted.IsZero()
	}, time.Minute, 10*time.Millisecond, "the record shows that an agent has called")
	t.Logf("an agent was welcome %v after the request for its cluster", time.Since(began))
	_, err = agent.Fresh(t.Context())
	require.NoError(t, err)

	revoked := time.Now()
	elsewhere.call(t, http.MethodDelete, agentKeys+"/"+key["id"].(string), nil, http.StatusNoContent)
	require.Eventually(t, func() bool {
		asked, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := agent.Fresh(asked)
		return errors.Is(err, client.ErrUnavailable)
	}, time.Minute, 10*time.Millisecond)
	t.Logf("the stream of the revoked key ended after %v", time.Since(revoked))
	for _, r := range []*running{first, second} {
		require.Eventually(t, func() bool {
			_, err := locate(t, r, key["key"].(string))
			return status.Code(err) == codes.Unauthenticated
		}, time.Minute, 10*time.Millisecond)
	}
	cancel()
	require.NoError(t, <-ended)

	elsewhere.call(t, http.MethodDelete, team+"/clusters/"+clusterID, nil, http.StatusOK)
	for _, r := range []*running{first, second} {
		require.Eventually(t, func() bool { return r.listed(t)[clusterID].State == "deleted" }, time.Minute, 10*time.Millisecond)
		require.NoError(t, r.Ready())
	}
	second.stop(t)
	first.stop(t)
}

// TestControlPlane_SignUpNamesAllReplicas: the answer to a sign-up has the public addresses of both replicas, first that of the one that answers.
func TestControlPlane_SignUpNamesAllReplicas(t *testing.T) {
	files := testservers.NewTLSFiles(t)
	served, err := tlsfiles.Files{Cert: files.Cert, Key: files.Key}.Server(zap.NewNop())
	require.NoError(t, err)
	etcd, bucket := startEtcd(t), mem.New()
	start := func(id string) *running {
		return startAs(t, etcd, bucket, id, func(c *controlplane.Config) {
			c.VirtualClusters, c.PublicListen, c.PublicTLS, c.SignUp, c.PublicAddress = nil, "127.0.0.1:0", served, httpapi.SignUpOpen, id+".example.com:443"
			c.Version = "v1"
		})
	}
	first := start("r1")
	await(t, func() bool {
		err := first.Ready()
		require.NotContains(t, fmt.Sprint(err), "the other replicas read the address", "a lone replica waits for none")
		return err == nil
	})
	second := start("r2")
	await(t, func() bool { return second.Ready() == nil })
	require.Equal(t, []string{"r1.example.com:443", "r2.example.com:443"}, first.Replicas(), "a replica is ready once the other one knows it")
	var plane operator.Plane
	await(t, func() bool {
		require.NoError(t, json.Unmarshal([]byte(second.get(t, "/v1/status")), &plane))
		return len(plane.Replicas) == 2 && len(plane.Etcd) == 1 && plane.Etcd[0].Fault == "" && plane.Replicas[0].Version != ""
	})
	require.Equal(t, []string{"r2", "r1", "r2"}, []string{plane.Replica, plane.Replicas[0].Replica, plane.Replicas[1].Replica}, "without any virtual cluster")
	require.Empty(t, plane.Findings)
	require.Empty(t, second.Warnings())
	body := map[string]string{"email": "ada@example.com", "password": "correct horse", "team": "data", "cluster": "main"}
	made := newTenant(t, files, second, "").call(t, http.MethodPost, "/v1/signup", body, http.StatusCreated)
	require.Equal(t, "r2.example.com:443,r1.example.com:443", made["control_plane"])
	require.Contains(t, made["agent_command"], "--control-plane r2.example.com:443,r1.example.com:443 ")
	second.stop(t)
	first.stop(t)
}

func TestConfig_PublicListenNeedsACertificate(t *testing.T) {
	_, err := controlplane.New(controlplane.Config{PublicListen: ":8443"})
	require.ErrorContains(t, err, "--public-listen has no certificate: set --public-tls-cert and --public-tls-key")
}
