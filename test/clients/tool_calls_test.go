package clients

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/test/harness"
)

// TestToolCalls replays the requests of administration tools. Each file of testdata/tools names the tool, its version and the code that the
// requests come from, and has the parts of the answers that the tool reads. Requests are JSON of package kmsg; NODE is the first node.
// -rewrite writes the answers anew.
func TestToolCalls(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/tools", func(t *testing.T, path string) {
		t.Helper()
		var listen []string
		for range 3 {
			listen = append(listen, "--kafka-listen="+testservers.Place{}.FreeAddress(t))
		}
		dev := harness.StartDev(t, append(listen, "--auto-create-topics=false")...)
		s := newSide(t, dev.Bootstrap)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			require.Equal(t, "ask", d.Cmd, d.Pos)
			var api string
			var version int
			d.ScanArgs(t, "api", &api)
			d.ScanArgs(t, "version", &version)
			input, show, ok := strings.Cut(d.Input, "\nshow ")
			require.True(t, ok, "%s: no line that begins with show", d.Pos)
			return toolAnswer(t, s, api, int16(version), input, show)
		})
	})
}

// toolAnswer sends a request, and returns the fields of the answer whose paths match a pattern.
func toolAnswer(t *testing.T, s *side, api string, version int16, input, show string) string {
	t.Helper()
	req := kmsg.RequestForKey(apiKeyOf(t, api))
	require.NoError(t, json.Unmarshal([]byte(strings.ReplaceAll(input, "NODE", strconv.Itoa(int(s.broker)))), req))
	req.SetVersion(version)
	answer := s.do(t, req)
	pattern, err := regexp.Compile(`^(?:` + show + `)$`)
	require.NoError(t, err)
	var out strings.Builder
	for _, path := range slices.Sorted(maps.Keys(answer)) {
		if pattern.MatchString(path) {
			fmt.Fprintf(&out, "%s = %s\n", path, answer[path])
		}
	}
	return out.String()
}

// apiKeyOf returns the key of an API.
func apiKeyOf(t *testing.T, name string) int16 {
	t.Helper()
	for key := range int16(kmsg.MaxKey + 1) {
		if kmsg.NameForKey(key) == name {
			return key
		}
	}
	require.Fail(t, "unknown API", name)
	return -1
}
