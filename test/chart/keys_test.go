package chart

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestChart_Keys: agents get the agent key alone. Control planes get all keys, and start without those of operators and autoscalers. KEDA gets
// the read-only key.
func TestChart_Keys(t *testing.T) {
	all := objects(t, render(t, "testdata/keda.values.yaml", "--set",
		"keys.secret=s,keys.agent=a,keys.acceptedAgent=both,keys.operator=o,keys.readOnly=r"))
	want := map[string]map[string]entry{
		"agent": {"FRESHET_AGENT_KEY": {Name: "s", Key: "a"}},
		"controlplane": {
			"FRESHET_AGENT_KEY":     {Name: "s", Key: "both"},
			"FRESHET_OPERATOR_KEY":  {Name: "s", Key: "o", Optional: true},
			"FRESHET_READ_ONLY_KEY": {Name: "s", Key: "r", Optional: true},
		},
		"etcd": {},
	}
	found := map[string]bool{}
	for _, o := range all {
		for _, c := range o.Spec.Template.Spec.Containers {
			got := map[string]entry{}
			for _, e := range c.Env {
				if e.ValueFrom.SecretKeyRef != nil {
					got[e.Name] = *e.ValueFrom.SecretKeyRef
				}
			}
			require.Equal(t, want[c.Name], got, c.Name)
			found[c.Name] = true
		}
		if o.Kind == "TriggerAuthentication" {
			require.Equal(t, []entry{{Name: "s", Key: "r"}}, o.Spec.SecretTargetRef)
			found[o.Kind] = true
		}
	}
	require.Equal(t, map[string]bool{"agent": true, "controlplane": true, "etcd": true, "TriggerAuthentication": true}, found)
}
