package ecs

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/freshet-io/freshet/agent/edge"
)

const (
	// maxTemplate is the size in bytes up to which a template needs no bucket.
	maxTemplate = 51200
	// stopMargin is the time that a process may take beyond its drain to stop.
	stopMargin = 2 * time.Second
	// maxStopTimeout is Fargate's bound of stopTimeout.
	maxStopTimeout = 120 * time.Second
)

// faults are deviations of the template from its rules.
type faults []string

func (f *faults) check(ok bool, format string, args ...any) {
	if !ok {
		*f = append(*f, fmt.Sprintf(format, args...))
	}
}

// get returns the value at a path of keys and indices, or nil.
func get(value any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			of, _ := value.(object)
			value = of[p]
		case int:
			list, _ := value.([]any)
			if p >= len(list) {
				return nil
			}
			value = list[p]
		}
	}
	return value
}

// list returns the elements of a list, or none.
func list(value any) []any {
	l, _ := value.([]any)
	return l
}

// checkTemplate returns the faults of a template with one zone, and with everything.
func checkTemplate(t *testing.T, text string) faults {
	t.Helper()
	var f faults
	f.check(len(text) < maxTemplate, "the template has %d bytes: CloudFormation takes less than %d without a bucket", len(text), maxTemplate)
	root := parse(t, text)
	for _, s := range []*stack{with(t, root), with(t, root, full), onEC2(t, root), onEC2(t, root, full)} {
		resources := s.resources()
		for _, name := range slices.Sorted(maps.Keys(resources)) {
			r, p := resources[name], resources[name]["Properties"]
			switch r["Type"] {
			case "AWS::ECS::Service":
				checkService(&f, s, name, p)
			case "AWS::ECS::TaskDefinition":
				checkTask(t, &f, name, p)
				checkLaunch(&f, s, name, p)
			case "AWS::ElasticLoadBalancingV2::LoadBalancer":
				f.check(get(p, "Type") == "network", "%s: not a Network Load Balancer", name)
				f.check(attributes(p, "LoadBalancerAttributes")["load_balancing.cross_zone.enabled"] == "false", "%s: crosses zones", name)
				f.check(len(list(get(p, "Subnets"))) == 1, "%s: not of one zone", name)
			case "AWS::ElasticLoadBalancingV2::Listener":
				f.check(attributes(p, "ListenerAttributes")["tcp.idle_timeout.seconds"] == "600", "%s: idle timeout", name)
			case "AWS::ElasticLoadBalancingV2::TargetGroup":
				checkTargets(t, &f, name, p)
			case "AWS::IAM::Role":
				checkRole(&f, name, p)
			case "AWS::S3::Bucket":
				f.check(r["DeletionPolicy"] == "Retain" && r["UpdateReplacePolicy"] == "Retain", "%s: goes with the stack", name)
				rules := list(get(p, "LifecycleConfiguration", "Rules"))
				f.check(len(rules) == 1 && get(rules, 0, "AbortIncompleteMultipartUpload", "DaysAfterInitiation") != nil && len(rules[0].(object)) == 3,
					"%s: lifecycle rules other than the end of unfinished uploads", name)
			case "AWS::Logs::LogGroup":
				f.check(get(p, "RetentionInDays") != nil, "%s: no retention", name)
			}
		}
		checkGroups(t, &f, s, resources)
	}
	checkWaits(&f, root)
	checkStops(&f, root)
	checkZones(&f, root)
	slices.Sort(f)
	return slices.Compact(f)
}

// checkService checks the properties of an ECS service.
func checkService(f *faults, s *stack, name string, p any) {
	agents := name != "ControlPlaneService"
	f.check((get(p, "DesiredCount") == nil) == agents, "%s: DesiredCount is for control planes alone", name)
	// Agents start after control planes, whose service waits for the cluster.
	cluster := "kafka"
	if !agents && s.instances == nil {
		cluster = "<Cluster>"
	}
	f.check(get(p, "Cluster") == cluster, "%s: cluster", name)
	checkPlacement(f, s, name, p)
	d := get(p, "DeploymentConfiguration")
	f.check(get(d, "MinimumHealthyPercent") == "100", "%s: MinimumHealthyPercent", name)
	f.check(get(d, "MaximumPercent") == "200", "%s: MaximumPercent", name)
	f.check(get(d, "DeploymentCircuitBreaker", "Enable") == "true", "%s: no circuit breaker", name)
	f.check(get(d, "DeploymentCircuitBreaker", "Rollback") == "true", "%s: no rollback", name)
	f.check(len(list(get(p, "ServiceRegistries"))) == 1, "%s: not one registry", name)
	network := get(p, "NetworkConfiguration", "AwsvpcConfiguration")
	f.check(!agents || len(list(get(network, "Subnets"))) == 1, "%s: agents of one service are of one zone", name)
	f.check(len(list(get(p, "LoadBalancers"))) <= 5, "%s: more target groups than ECS takes", name)
}

// checkTask checks a task definition, and its settings against the program's flags.
func checkTask(t *testing.T, f *faults, name string, p any) {
	t.Helper()
	containers := list(get(p, "ContainerDefinitions"))
	f.check(len(containers) == 1, "%s: not one container", name)
	c := get(containers, 0)
	command, _ := get(c, "Command", 0).(string)
	http := ports(t, command, "http-listen")[0]
	// ECS ends a task whose check fails. /readyz of a control plane fails while etcd or the bucket is away; that of an agent does not.
	path := map[string]string{"agent": "/readyz", "controlplane": "/startedz"}[command]
	f.check(reflect.DeepEqual(get(c, "HealthCheck", "Command"), []any{"CMD", "/freshet", "health", "http://127.0.0.1:" + http + path}),
		"%s: health check", name)
	f.check(get(c, "ReadonlyRootFilesystem") == "true", "%s: root file system", name)
	f.check(get(c, "LogConfiguration", "LogDriver") == "awslogs", "%s: log driver", name)
	nofile, _ := strconv.Atoi(fmt.Sprint(get(c, "Ulimits", 0, "SoftLimit")))
	f.check(get(c, "Ulimits", 0, "Name") == "nofile" && nofile >= 65536, "%s: nofile", name)
	flags := settings(t, command)
	for _, variable := range append(list(get(c, "Environment")), list(get(c, "Secrets"))...) {
		variable, _ := get(variable, "Name").(string)
		flag := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(variable, "FRESHET_"), "_", "-"))
		f.check(strings.HasPrefix(variable, "FRESHET_") && flags[flag] != "", "%s: freshet %s has no setting %s", name, command, variable)
	}
	checkKeys(f, name, command, c)
	if command == "agent" {
		kafka := ports(t, command, "kafka-listen")
		listen := ":" + kafka[0] + "-" + kafka[1]
		environment := attributes(object{"Of": get(c, "Environment")}, "Of")
		f.check(environment["FRESHET_KAFKA_LISTEN"] == listen || environment["FRESHET_KAFKA_LISTEN"] == listen+",external=:9192-9195", "%s: listeners", name)
		f.check(environment["FRESHET_ZONE"] != nil, "%s: no zone", name)
		f.check(environment["FRESHET_DRAIN_TIMEOUT"] != nil, "%s: drain", name)
	}
}

// keySettings are the keys of agents and of control planes, by variable.
var keySettings = map[string][]any{
	"agent": {"FRESHET_AGENT_KEY"}, "controlplane": {"FRESHET_AGENT_KEY", "FRESHET_OPERATOR_KEY", "FRESHET_READ_ONLY_KEY"},
}

// checkKeys checks that a container gets its keys as secrets. An agent gets the agent key alone.
func checkKeys(f *faults, name, command string, c any) {
	for _, e := range list(get(c, "Environment")) {
		f.check(!slices.Contains(keySettings["controlplane"], get(e, "Name")), "%s: %v in plain text", name, get(e, "Name"))
	}
	var keys []any
	for _, e := range list(get(c, "Secrets")) {
		if variable, _ := get(e, "Name").(string); !strings.HasPrefix(variable, "FRESHET_ETCD_") {
			keys = append(keys, variable)
		}
	}
	f.check(reflect.DeepEqual(keys, keySettings[command]), "%s: keys %v", name, keys)
}

// checkTargets checks a target group.
func checkTargets(t *testing.T, f *faults, name string, p any) {
	t.Helper()
	a := attributes(p, "TargetGroupAttributes")
	f.check(a["preserve_client_ip.enabled"] == "true", "%s: agents see the load balancer's address, not the client's", name)
	f.check(a["deregistration_delay.timeout_seconds"] == "15", "%s: deregistration delay", name)
	f.check(a["load_balancing.cross_zone.enabled"] == nil, "%s: crosses zones", name)
	f.check(get(p, "HealthCheckPath") == "/readyz" && get(p, "HealthCheckProtocol") == "HTTP" &&
		get(p, "HealthCheckPort") == ports(t, "agent", "http-listen")[0], "%s: health check", name)
}

// attributes returns a list of mappings with Key or Name, and Value, as one mapping.
func attributes(p any, name string) object {
	all := object{}
	for _, a := range list(get(p, name)) {
		key, _ := get(a, "Key").(string)
		if key == "" {
			key, _ = get(a, "Name").(string)
		}
		all[key] = get(a, "Value")
	}
	return all
}

// checkRole refuses rights to all resources, but for the one action that has no resource, and rights to the bucket beyond the prefix.
func checkRole(f *faults, name string, p any) {
	for _, policy := range list(get(p, "Policies")) {
		for _, s := range list(get(policy, "PolicyDocument", "Statement")) {
			actions := list(get(s, "Action"))
			if one, ok := get(s, "Action").(string); ok {
				actions = []any{one}
			}
			resource := fmt.Sprint(get(s, "Resource"))
			f.check(resource != "*" || reflect.DeepEqual(actions, []any{"ecr:GetAuthorizationToken"}), "%s: %v of every resource", name, actions)
			for _, a := range actions {
				f.check(!strings.Contains(a.(string), "*"), "%s: %v", name, a)
				f.check(a != "s3:ListBucket" || get(s, "Condition", "StringLikeIfExists", "s3:prefix") == "freshet/*", "%s: lists the whole bucket", name)
				f.check(!regexp.MustCompile(`^s3:.*(Object|AbortMultipartUpload)$`).MatchString(a.(string)) || strings.HasSuffix(resource, "/freshet/*"),
					"%s: %s beyond the prefix", name, a)
			}
		}
	}
}

// checkWaits checks that tasks start after the endpoints that they use, and services after the listeners of their target groups.
func checkWaits(f *faults, root object) {
	for name, r := range root["Resources"].(object) {
		r := r.(object)
		of := regexp.MustCompile(`^Listener([ABC])\d$`).FindStringSubmatch(name)
		switch {
		case r["Type"] == "AWS::EC2::VPCEndpoint":
			f.check(refers(get(root, "Resources", "ControlPlaneService", "Properties"), name), "ControlPlaneService does not wait for %s", name)
		case of != nil:
			f.check(refers(get(root, "Resources", "Service"+of[1], "Properties"), name), "Service%s does not wait for %s", of[1], name)
		case r["Type"] == "AWS::ECS::Service" && name != "ControlPlaneService":
			f.check(r["DependsOn"] == "ControlPlaneService", "%s does not wait for control planes", name)
		}
	}
}

// refers reports whether a value has a reference to a resource.
func refers(value any, resource string) bool {
	switch v := value.(type) {
	case []any:
		return slices.ContainsFunc(v, func(e any) bool { return refers(e, resource) })
	case object:
		if v["Ref"] == resource {
			return true
		}
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), func(e any) bool { return refers(e, resource) })
	}
	return false
}

// checkStops compares each allowed drain with its stopTimeout.
func checkStops(f *faults, root object) {
	p := get(root, "Parameters", "DrainSeconds")
	for _, v := range list(get(p, "AllowedValues")) {
		drain, _ := strconv.Atoi(v.(string))
		stop, _ := strconv.Atoi(fmt.Sprint(get(root, "Mappings", "Drain", v, "Stop")))
		seconds := time.Duration(stop) * time.Second
		f.check(seconds >= time.Duration(drain)*time.Second+stopMargin && seconds <= maxStopTimeout, "stopTimeout %d of a drain of %d", stop, drain)
		f.check(time.Duration(drain)*time.Second >= edge.DefaultDrainTimeout, "a drain of %d is below the program's default", drain)
	}
	for _, name := range []string{"TaskA", "TaskB", "TaskC"} {
		stop := get(root, "Resources", name, "Properties", "ContainerDefinitions", 0, "StopTimeout")
		f.check(reflect.DeepEqual(stop, object{"Fn::FindInMap": []any{"Drain", object{"Ref": "DrainSeconds"}, "Stop"}}), "%s: stopTimeout", name)
	}
}

// checkZones compares the resources of the zones B and C with those of A.
func checkZones(f *faults, root object) {
	resources := root["Resources"].(object)
	of := regexp.MustCompile(`^(Name|Task|Service|Balancer|Targets|Listener|Group|Provider)A(\d?)$`)
	for name, r := range resources {
		m := of.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		for _, zone := range []string{"B", "C"} {
			other, _ := resources[m[1]+zone+m[2]].(object)
			condition, ok := r.(object)["Condition"]
			f.check(ok || other["Condition"] == "Has"+zone, "%s%s%s: condition", m[1], zone, m[2])
			f.check(!ok || condition == "Balanced" && other["Condition"] == "Balanced"+zone, "%s%s%s: condition", m[1], zone, m[2])
			f.check(reflect.DeepEqual(rename(get(r, "Properties"), "A", zone), rename(get(other, "Properties"), zone, zone)),
				"%s%s%s differs from that of zone A", m[1], zone, m[2])
		}
	}
}

// rename returns a value with the letter of a zone replaced. It ignores settings that list all zones, such as FRESHET_CLIENT_ZONES.
func rename(value any, from, to string) any {
	switch v := value.(type) {
	case []any:
		l := []any{}
		for _, e := range v {
			l = append(l, rename(e, from, to))
		}
		return l
	case object:
		if name := get(v, "Name"); name == "FRESHET_CLIENT_ZONES" || name == "FRESHET_SHARED_ADVERTISE" {
			return name
		}
		o := object{}
		for k, e := range v {
			o[k] = rename(e, from, to)
		}
		return o
	case string:
		return regexp.MustCompile(`\b(Zone|Subnet|Name|Task|Service|Balancer|Targets|Listener|Group|Provider)`+from+`(\d?)\b`).ReplaceAllString(v, "${1}"+to+"${2}")
	}
	return value
}
