package clients

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/internal/groupconfig"
	"github.com/freshet-io/freshet/test/harness"
)

// bounds are values on both sides of each bound of a group config, and values of another type.
var bounds = []string{
	"-1", "0", "1", "2", "3", "10", "11", "99", "100", "4000", "4001", "4999", "5000", "14999", "15000", "15001", "44999", "45000", "60000", "60001",
	"2147483647", "2147483648", "soon", "",
}

// compareGroupConfigs sets each group config to each of the bounds. Kafka and Freshet answer the same code and the same
// message (GroupConfig.validate).
func compareGroupConfigs(t *testing.T, broker *harness.Kafka) {
	t.Helper()
	freshet, kafka := newSide(t, harness.StartDev(t).Bootstrap), newSide(t, broker.Bootstrap)
	for _, d := range groupconfig.All() {
		if strings.HasPrefix(d.Name, "errors.deadletterqueue.") {
			continue // Freshet takes only the default, since it has no share groups.
		}
		for _, value := range bounds {
			if got, want := validateGroupConfig(t, freshet, d.Name, value), validateGroupConfig(t, kafka, d.Name, value); got != want {
				t.Errorf("%s=%q: freshet %s, kafka %s", d.Name, value, got, want)
			}
		}
	}
}

// validateGroupConfig returns the code and the message of an IncrementalAlterConfigs that only validates.
func validateGroupConfig(t *testing.T, s *side, name, value string) string {
	t.Helper()
	req, r := kmsg.NewPtrIncrementalAlterConfigsRequest(), kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeGroupConfig, "bounds"
	r.Configs = append(r.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: name, Value: &value})
	req.ValidateOnly, req.Resources = true, append(req.Resources, r)
	resp := ask[*kmsg.IncrementalAlterConfigsResponse](t, s.conn, req, 1)
	require.Len(t, resp.Resources, 1)
	message := "no message"
	if m := resp.Resources[0].ErrorMessage; m != nil {
		message = *m
	}
	return fmt.Sprintf("%s: %s", code(resp.Resources[0].ErrorCode), message)
}
