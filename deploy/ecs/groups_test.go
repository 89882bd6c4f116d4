package ecs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// checkGroups compares the rules of all security groups with the ports of the program.
func checkGroups(t *testing.T, f *faults, s *stack, resources map[string]object) {
	t.Helper()
	kafka, peer, agentHTTP := ports(t, "agent", "kafka-listen"), ports(t, "agent", "peer-listen"), ports(t, "agent", "http-listen")
	grpc, planeHTTP := ports(t, "controlplane", "grpc-listen"), ports(t, "controlplane", "http-listen")
	external, etcd, tls := [2]string{"9192", "9195"}, [2]string{"2379", "2379"}, [2]string{"443", "443"}
	rule := func(group, direction string, p [2]string, other string) string {
		return fmt.Sprintf("%s %s %s-%s %s", group, direction, p[0], p[1], other)
	}
	clients := []string{"10.0.0.0/16"}
	want := []string{
		rule("Agents", "to", tls, "0.0.0.0/0"), rule("ControlPlanes", "to", tls, "0.0.0.0/0"), rule("ControlPlanes", "to", etcd, "0.0.0.0/0"),
		rule("AgentRules", "from", peer, "<Agents>"), rule("AgentRules", "to", peer, "<Agents>"), rule("AgentRules", "to", grpc, "<ControlPlanes>"),
		rule("ControlPlaneRules", "from", grpc, "<Agents>"), rule("ControlPlaneRules", "from", grpc, "<ControlPlanes>"),
		rule("ControlPlaneRules", "to", grpc, "<ControlPlanes>"),
	}
	if s.parameters["OperatorCidr"] != "" {
		clients = append(clients, "10.1.0.0/16", "10.2.0.0/16")
		want = append(want, rule("AgentRules", "from", agentHTTP, "10.9.0.0/24"), rule("ControlPlaneRules", "from", planeHTTP, "10.9.0.0/24"),
			rule("EndpointGroup", "from", tls, "<Agents>"), rule("EndpointGroup", "from", tls, "<ControlPlanes>"),
			rule("AgentRules", "from", external, "<BalancerGroup>"), rule("AgentRules", "from", agentHTTP, "<BalancerGroup>"),
			rule("BalancerGroup", "to", external, "<Agents>"), rule("BalancerGroup", "to", agentHTTP, "<Agents>"))
		for _, c := range clients {
			want = append(want, rule("BalancerGroup", "from", external, c))
		}
	}
	if s.instances != nil && s.parameters["InterfaceEndpoints"] == "true" {
		want = append(want, rule("EndpointGroup", "from", tls, "<Instances>"))
	}
	for _, c := range clients {
		want = append(want, rule("AgentRules", "from", kafka, c))
	}
	var got []string
	for name, r := range resources {
		f.check(!strings.HasPrefix(r["Type"].(string), "AWS::EC2::SecurityGroup") || r["Type"] == "AWS::EC2::SecurityGroup", "%s: a rule outside of its group", name)
		for direction, key := range map[string]string{"from": "SecurityGroupIngress", "to": "SecurityGroupEgress"} {
			for _, e := range list(get(r, "Properties", key)) {
				other := ""
				for _, k := range []string{"CidrIp", "SourceSecurityGroupId", "DestinationSecurityGroupId"} {
					if v, ok := get(e, k).(string); ok {
						other += v
					}
				}
				f.check(get(e, "IpProtocol") == "tcp", "%s: protocol", name)
				got = append(got, rule(name, direction, [2]string{fmt.Sprint(get(e, "FromPort")), fmt.Sprint(get(e, "ToPort"))}, other))
			}
		}
	}
	for _, r := range got {
		f.check(slices.Contains(want, r), "open: %s", r)
	}
	for _, r := range want {
		f.check(slices.Contains(got, r), "closed: %s", r)
	}
}
