package tenants

import (
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/test/harness"
)

// TestTenants_SignUp runs signup.sh, which goes from a sign-up to a record by curl, the agent of the answer, and kcat.
func TestTenants_SignUp(t *testing.T) {
	harness.Need(t, "curl")
	harness.Need(t, "kcat")
	c := harness.StartCluster(t, harness.ClusterConfig{Hosted: true, StateBucket: true, TLS: true, ControlFlags: []string{"--signup", "open"}})
	script := exec.CommandContext(t.Context(), "./signup.sh")
	script.Env = append(os.Environ(), "API="+c.ControlPlanes[0].API, "CA="+c.Files.CA, "BUCKET="+c.BucketURL, "FRESHET="+harness.Freshet(t),
		"LISTEN="+testservers.Place{}.FreeAddress(t))
	out, err := script.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Regexp(t, regexp.MustCompile(`first acknowledged record after \d+\.\d\d s`), string(out))
	t.Logf("%s", out)
}
