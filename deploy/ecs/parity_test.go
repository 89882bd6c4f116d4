package ecs

import (
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// flatten puts the scalars of a value into flat, by path. Elements with a name count by name, so their order does not matter.
func flatten(value any, path string, flat map[string]string) {
	join := func(name string) string { return strings.TrimPrefix(path+"/"+name, "/") }
	switch v := value.(type) {
	case object:
		for name, e := range v {
			flatten(e, join(name), flat)
		}
	case []any:
		for i, e := range v {
			of, _ := e.(object)
			name := fmt.Sprint(i)
			for _, key := range []string{"Key", "Name", "name", "key"} {
				if k, ok := of[key].(string); ok && (of["Value"] != nil || of["value"] != nil) {
					name, of = k, maps.Clone(of)
					delete(of, key)
					e = of
				}
			}
			flatten(e, join(name), flat)
		}
	default:
		flat[path] = fmt.Sprint(v)
	}
}

// property returns the property of an argument, and whether the table has the argument.
func property(table map[string]string, argument string) (string, bool) {
	parts := strings.Split(argument, "/")
	for from, to := range table {
		pattern := strings.Split(from, "/")
		rest := pattern[len(pattern)-1] == "*"
		if len(pattern) != len(parts) && (!rest || len(parts) < len(pattern)) {
			continue
		}
		var indices []string
		ok := true
		for i, p := range pattern {
			switch p {
			case "*":
			case "#":
				indices = append(indices, parts[i])
			default:
				ok = ok && p == parts[i]
			}
		}
		if !ok {
			continue
		}
		for _, i := range indices {
			to = strings.Replace(to, "#", i, 1)
		}
		if rest {
			to = strings.TrimSuffix(to, "*") + strings.Join(parts[len(pattern)-1:], "/")
		}
		return to, true
	}
	return "", false
}

// capital returns a path of a container definition in the spelling of CloudFormation. Names of variables and log options stay.
func capital(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		if i == 0 || parts[i-1] != "Options" && !strings.HasPrefix(p, "FRESHET_") {
			parts[i] = strings.ToUpper(p[:1]) + p[1:]
		}
	}
	return strings.Join(parts, "/")
}

var (
	address   = regexp.MustCompile(`<([^<>]+)\.([a-z_]+)>`)
	attribute = regexp.MustCompile(`<(\w+)\.Arn>`)
)

// refer returns a value with the template's names instead of the module's addresses.
func refer(names map[string]string, value string) string {
	return address.ReplaceAllStringFunc(value, func(m string) string {
		parts := address.FindStringSubmatch(m)
		switch parts[2] {
		case "dns_name":
			return "<" + names[parts[1]] + ".DNSName>"
		case "latest_version":
			return "<" + names[parts[1]] + ".LatestVersionNumber>"
		}
		return "<" + names[parts[1]] + ">"
	})
}

// ofModule returns the module's resources by the names and properties of the template. Deviations from the tables are faults.
func ofModule(f *faults, r *rendering) map[string]map[string]string {
	of := names()
	all := map[string]map[string]string{}
	for address, res := range r.Resources {
		table, ok := counterparts[res.Type]
		f.check(ok, "%s: a type without a counterpart", address)
		for _, name := range []string{"policy", "assume_role_policy", "container_definitions"} {
			if text, ok := res.Values[name].(string); ok {
				var document any
				err := numbers([]byte(text), &document)
				f.check(err == nil, "%s: %s: %v", address, name, err)
				res.Values[name] = document
			}
		}
		if text, ok := res.Values["user_data"].(string); ok {
			data, err := base64.StdEncoding.DecodeString(text)
			f.check(err == nil, "%s: user_data: %v", address, err)
			res.Values["user_data"] = string(data)
		}
		flat, properties := map[string]string{}, map[string]string{}
		flatten(res.Values, "", flat)
		for argument, value := range flat {
			to, ok := property(table, argument)
			f.check(ok, "%s: %s has no counterpart", address, argument)
			if strings.HasPrefix(to, "ContainerDefinitions/") {
				to = capital(to)
			}
			if other, ok := wording[argument+"="+value]; ok {
				value = other
			}
			if to != "" {
				properties[to] = refer(of, value)
			}
		}
		name := of[address]
		if owner := properties["of"]; owner != "" {
			name = strings.Trim(owner, "<>")
			delete(properties, "of")
		}
		f.check(name != "", "%s: a resource without a counterpart", address)
		if all[name] == nil {
			all[name] = map[string]string{}
		}
		rules(all[name], properties)
		if res.PreventDestroy {
			all[name]["stays"] = "true"
		}
	}
	return all
}

// rules adds properties to those of a resource. A rule of a security group becomes one property, so that the order does not matter.
func rules(to, properties map[string]string) {
	for _, direction := range []string{"Egress", "Ingress"} {
		rule := []string{direction}
		for _, name := range []string{"IpProtocol", "FromPort", "ToPort", "CidrIp", "Group", "Description"} {
			rule = append(rule, properties[direction+"/"+name])
			delete(properties, direction+"/"+name)
		}
		if rule[1] != "" {
			to[strings.Join(rule, " ")] = "true"
		}
	}
	maps.Copy(to, properties)
}

// merged are the template's names of two groups that the module makes one. Its rules are resources, so that Agents and ControlPlanes have them.
var merged = strings.NewReplacer("AgentRules", "Agents", "ControlPlaneRules", "ControlPlanes")

// ofTemplate returns the resources of a stack and of its instances, with the values that AWS sets by default.
func ofTemplate(s *stack) map[string]map[string]string {
	all := map[string]map[string]string{}
	addTemplate(all, s)
	if s.instances != nil {
		addTemplate(all, s.instances)
	}
	return all
}

// addTemplate adds the resources of one stack. EndpointGroup is in both templates, each with some of its rules.
func addTemplate(all map[string]map[string]string, s *stack) {
	for name, r := range s.resources() {
		properties, into := r["Properties"].(object), merged.Replace(name)
		if all[into] == nil {
			all[into] = map[string]string{}
		}
		switch r["Type"] {
		case "AWS::EC2::SecurityGroup":
			groupRules(all[into], properties)
			if into != name {
				continue
			}
		case "AWS::ECS::Service":
			network := properties["NetworkConfiguration"].(object)["AwsvpcConfiguration"].(object)
			network["SecurityGroups"] = slices.DeleteFunc(list(network["SecurityGroups"]), func(g any) bool { return strings.HasSuffix(g.(string), "Rules>") })
			if properties["DesiredCount"] == nil {
				properties["DesiredCount"] = "1"
			}
			properties["Cluster"] = "<Cluster>"
		case "AWS::ElasticLoadBalancingV2::TargetGroup":
			properties["UnhealthyThresholdCount"] = "2"
		}
		flat := map[string]string{}
		flatten(properties, "", flat)
		for path, value := range flat {
			all[into][path] = attribute.ReplaceAllString(strings.ReplaceAll(value, "<LogGroup.Arn>", "<LogGroup>:*"), "<$1>")
		}
		if r["DeletionPolicy"] == "Retain" {
			all[into]["stays"] = "true"
		}
	}
}

// groupRules moves the rules of a security group of the template from its properties.
func groupRules(to map[string]string, properties object) {
	for direction, key := range map[string]string{"Egress": "SecurityGroupEgress", "Ingress": "SecurityGroupIngress"} {
		for _, e := range list(properties[key]) {
			rule := map[string]string{}
			for k, v := range e.(object) {
				if strings.HasSuffix(k, "SecurityGroupId") {
					k = "Group"
				}
				rule[direction+"/"+k] = fmt.Sprint(v)
			}
			rules(to, rule)
		}
		delete(properties, key)
	}
}

// checkParity compares the module in a directory with the template.
func checkParity(t *testing.T, dir string, s *stack) faults {
	t.Helper()
	var f faults
	r, err := render(t, dir, variables(t, s))
	if err != nil {
		return faults{err.Error()}
	}
	f.check(len(r.Refused) == 0, "refused: %v", r.Refused)
	module, template := ofModule(&f, r), ofTemplate(s)
	resources := slices.Sorted(maps.Keys(template))
	for name := range module {
		f.check(template[name] != nil, "%s is the module's alone", name)
	}
	for _, name := range resources {
		f.check(module[name] != nil, "%s is the template's alone", name)
		for path, value := range template[name] {
			f.check(module[name][path] == value, "%s: %s is %q in the template, %q in the module", name, path, value, module[name][path])
		}
		for path, value := range module[name] {
			_, ok := template[name][path]
			f.check(ok, "%s: %s is %q in the module alone", name, path, value)
		}
	}
	checkModule(&f, r)
	for name, other := range outputs {
		want := ""
		if condition, ok := get(s.root, "Outputs", other, "Condition").(string); !ok || s.condition(condition) {
			want = attribute.ReplaceAllString(fmt.Sprint(s.eval(get(s.root, "Outputs", other, "Value"))), "<$1>")
			if other == "ClusterName" {
				want = "<Cluster>"
			}
		}
		var parts []string
		for _, e := range append(list(r.Outputs[name]), r.Outputs[name]) {
			if text, ok := e.(string); ok {
				parts = append(parts, text)
			}
		}
		found := refer(names(), strings.Join(parts, ","))
		f.check(found == want, "output %s is %q, in the template %q", name, found, want)
	}
	f.check(len(r.Outputs) == len(outputs), "other outputs than the template's")
	slices.Sort(f)
	return slices.Compact(f)
}

// checkModule checks arguments without a counterpart: the ignored count, and the order of resources that no reference gives.
func checkModule(f *faults, r *rendering) {
	for address, res := range r.Resources {
		agents := strings.HasPrefix(address, "aws_ecs_service.agents")
		f.check(slices.Equal(res.IgnoreChanges, []string{"desired_count"}) == agents, "%s: ignores changes of %v", address, res.IgnoreChanges)
		want := []string{"aws_ecs_service.control_plane", "aws_iam_role_policy.agent", "aws_lb_listener.agents"}
		switch {
		case address == "aws_ecs_service.control_plane":
			want = []string{
				"aws_ecs_cluster_capacity_providers.this", "aws_iam_role_policy.control_plane", "aws_iam_role_policy.execution",
				"aws_iam_role_policy_attachment.instance", "aws_secretsmanager_secret_version.key",
				"aws_vpc_endpoint.gateway", "aws_vpc_endpoint.interface", "aws_vpc_security_group_egress_rule.this", "aws_vpc_security_group_ingress_rule.this",
			}
		case !agents:
			continue
		}
		for _, w := range want {
			f.check(slices.Contains(res.DependsOn, w), "%s does not wait for %s", address, w)
		}
		f.check(res.Values["wait_for_steady_state"] == true, "%s: the next resource does not wait for ready tasks", address)
	}
	for address, res := range r.Resources {
		f.check(res.Type != "aws_ecs_task_definition" || res.Values["skip_destroy"] == true, "%s: a roll-back has no revision", address)
		f.check(res.Values["secret_string"] == nil, "%s: a key is in the state", address)
	}
}

// TestParity compares the module with the template: one zone with the defaults, three zones with everything, and other values than the defaults,
// each on Fargate and on EC2.
func TestParity(t *testing.T) {
	root := parse(t, source(t))
	for name, parameters := range map[string][]map[string]string{
		"one zone": nil, "three zones": {full}, "other values": {full, others}, "an authority": {{"EtcdCaSecretArn": secretArn("ca.crt")}},
		"an authority and a certificate": {full, etcdSecrets},
	} {
		t.Run(name, func(t *testing.T) {
			require.Empty(t, checkParity(t, moduleDir, with(t, root, parameters...)))
			require.Empty(t, checkParity(t, moduleDir, onEC2(t, root, parameters...)))
		})
	}
}
