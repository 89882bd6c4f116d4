package tenants

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/test/harness"
)

// ctl runs a command of `freshet ctl` and returns its output.
func (p *plane) ctl(t *testing.T, environ []string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), harness.Freshet(t), append([]string{"ctl"}, args...)...)
	c.Env = append(append(os.Environ(), "FRESHET_URL="+p.ControlPlanes[0].API, "FRESHET_TLS_CA="+p.PublicFiles.CA), environ...)
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%v: %s", args, out)
	return strings.TrimSpace(string(out))
}

// TestTenants_Limits: an operator changes the limits of a virtual cluster beside its producer and its consumer, which see no error. The agent
// runs on. CreateTopics follows each limit of partitions, also one below the number in use. Other memory restarts the virtual cluster.
func TestTenants_Limits(t *testing.T) {
	p := startPlane(t)
	asOperator := []string{"FRESHET_OPERATOR_KEY=" + p.OperatorKey}
	asTeam := strings.Split(p.ctl(t, asOperator, "team", "create", "orders", "--email", "ada@example.com"), "\n")
	v := &tenant{plane: p, id: strings.Fields(p.ctl(t, asTeam, "cluster", "create", "main"))[4]}
	v.name, v.key = v.id, p.ctl(t, asTeam, "key", "create", "main", "agents")
	q := v.startQuiet(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(q.agent.Bootstrap))
	require.NoError(t, err)
	defer client.Close()
	admin, used, topics := kadm.NewClient(client), int32(1), 0
	create := func(partitions int32) error {
		topics++
		_, err := admin.CreateTopic(t.Context(), partitions, -1, nil, fmt.Sprintf("topic-%d", topics))
		if err == nil {
			used += partitions
		}
		return err
	}
	limit := func(flags ...string) {
		t.Helper()
		p.ctl(t, asOperator, append([]string{"cluster", "limit", v.id}, flags...)...)
	}
	// await repeats create until it fails or succeeds, as wanted.
	await := func(want error, partitions int32) {
		t.Helper()
		began := time.Now()
		for {
			err := create(partitions)
			if errors.Is(err, want) {
				t.Logf("the limit held after %s", time.Since(began).Round(time.Millisecond))
				return
			}
			require.True(t, err == nil || errors.Is(err, kerr.PolicyViolation), "%v", err)
			require.Less(t, time.Since(began), time.Minute)
			harness.During(100*time.Millisecond, func() {})
		}
	}
	mark := func(when string) {
		t.Helper()
		owners := 0
		for _, r := range p.ControlPlanes {
			for line := range strings.Lines(r.Output()) {
				if strings.Contains(line, "became the owner") && strings.Contains(line, v.id) {
					owners++
				}
			}
		}
		q.mark(fmt.Sprintf("%s, %d owners so far", when, owners))
	}
	require.NoError(t, create(5))
	harness.During(2*time.Second, func() {})
	mark("before")

	limit("--partitions", "3")
	await(kerr.PolicyViolation, 1)
	mark("with a limit below the partitions in use")
	limit("--partitions", fmt.Sprint(used+4))
	await(nil, 4)
	require.ErrorIs(t, create(1), kerr.PolicyViolation)
	mark("with a limit above them")

	for _, flag := range []string{"--memory=64MiB", "--log-bytes=16MiB", "--warm"} {
		limit(flag)
		harness.During(2*time.Second, func() {})
		mark("with " + flag)
	}
	q.end()
}
