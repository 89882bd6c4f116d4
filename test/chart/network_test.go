package chart

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// ingress is a rule of a NetworkPolicy.
type ingress struct {
	Ports []struct {
		Port    any // a number or a name
		EndPort int `yaml:"endPort"`
	}
	From []source
}

type source struct {
	PodSelector *struct {
		MatchLabels map[string]string `yaml:"matchLabels"`
	} `yaml:"podSelector"`
	NamespaceSelector any `yaml:"namespaceSelector"`
	IPBlock           any `yaml:"ipBlock"`
}

const componentLabel = "app.kubernetes.io/component"

// allows reports whether the policies of a render let source connect to a port of destination.
func allows(objects []object, source, destination string, port int) bool {
	if source == "node" { // the kubelet of the pod's own node
		return true
	}
	for _, o := range objects {
		if o.Kind != "NetworkPolicy" || o.Spec.PodSelector.MatchLabels[componentLabel] != destination {
			continue
		}
		for _, rule := range o.Spec.Ingress {
			if rule.has(port, ports(objects, destination)) && rule.from(source) {
				return true
			}
		}
	}
	return false
}

func (r ingress) has(port int, names map[string]int) bool {
	for _, p := range r.Ports {
		first, ok := p.Port.(int)
		if !ok {
			first = names[p.Port.(string)]
		}
		if port == first || port > first && port <= p.EndPort {
			return true
		}
	}
	return false
}

// from reports whether the rule admits a component; for client, whether it has a namespaceSelector or an ipBlock.
func (r ingress) from(component string) bool {
	if len(r.From) == 0 {
		return true
	}
	for _, f := range r.From {
		outside := f.NamespaceSelector != nil || f.IPBlock != nil
		if component == "client" && outside || !outside && f.PodSelector != nil && f.PodSelector.MatchLabels[componentLabel] == component {
			return true
		}
	}
	return false
}

// ports are the named ports of a component's pods.
func ports(objects []object, component string) map[string]int {
	names := map[string]int{}
	for _, o := range objects {
		if o.Spec.Template.Metadata.Labels[componentLabel] != component {
			continue
		}
		for _, c := range o.Spec.Template.Spec.Containers {
			for _, p := range c.Ports {
				names[p.Name] = p.ContainerPort
			}
		}
	}
	return names
}

// TestNetworkPolicies_AllowWhatIsUsed compares the policies with the connections of a running cluster.
func TestNetworkPolicies_AllowWhatIsUsed(t *testing.T) {
	objects := objects(t, render(t, "testdata/network.values.yaml"))
	recorded, err := os.ReadFile("testdata/connections.txt")
	require.NoError(t, err)
	compared := 0
	for line := range strings.Lines(string(recorded)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		require.Len(t, fields, 3, line)
		port, err := strconv.Atoi(fields[2])
		require.NoError(t, err, line)
		require.True(t, allows(objects, fields[0], fields[1], port), "the policies forbid: %s", line)
		compared++
	}
	require.NotZero(t, compared)
}

func TestNetworkPolicies_ForbidTheRest(t *testing.T) {
	objects := objects(t, render(t, "testdata/network.values.yaml"))
	for _, c := range []struct {
		source, destination string
		port                int
	}{
		{"agent", "etcd", 2379},
		{"agent", "etcd", 2380},
		{"client", "etcd", 2379},
		{"client", "controlplane", 7050},
		{"client", "agent", 7070},
		{"controlplane", "agent", 7070},
		{"controlplane", "etcd", 2380},
		{"etcd", "controlplane", 7050},
		{"etcd", "agent", 9092},
	} {
		require.False(t, allows(objects, c.source, c.destination, c.port), fmt.Sprint(c))
	}
}

// TestNetworkPolicies_LetEverybodyInByDefault: clients and monitoring are unknown until from names them.
func TestNetworkPolicies_LetEverybodyInByDefault(t *testing.T) {
	objects := objects(t, render(t, "testdata/default.values.yaml", "--set", "networkPolicy.enabled=true"))
	require.True(t, allows(objects, "client", "agent", 9092))
	require.True(t, allows(objects, "client", "agent", 8080))
	require.True(t, allows(objects, "client", "controlplane", 8090))
	require.False(t, allows(objects, "client", "etcd", 2379))
	require.False(t, allows(objects, "client", "agent", 7070))
}
