package ecs

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// scalingFull are parameters of scaling.yaml for the stack of full.
var scalingFull = map[string]string{"Cluster": "kafka", "ZoneB": "eu-1b", "ZoneC": "eu-1c"}

// checkScaling returns the faults of scaling.yaml.
func checkScaling(t *testing.T, text string) faults {
	t.Helper()
	var f faults
	root, services := parse(t, text), []string{}
	for name, r := range with(t, parse(t, source(t)), full).resources() {
		if service, _ := get(r, "Properties", "ServiceName").(string); r["Type"] == "AWS::ECS::Service" && name != "ControlPlaneService" {
			services = append(services, "service/kafka/"+service)
		}
	}
	slices.Sort(services)
	for _, metric := range []string{"cpu", "utilization"} {
		resources := with(t, root, scalingFull, map[string]string{"Metric": metric}).resources()
		var scaled []string
		for name, r := range resources {
			p := r["Properties"]
			switch r["Type"] {
			case "AWS::ApplicationAutoScaling::ScalableTarget":
				service, _ := get(p, "ResourceId").(string)
				scaled = append(scaled, service)
				f.check(get(p, "ServiceNamespace") == "ecs" && get(p, "ScalableDimension") == "ecs:service:DesiredCount", "%s: not the count of a service", name)
				f.check(get(p, "MinCapacity") == "1" && get(p, "MaxCapacity") == "10", "%s: bounds", name)
			case "AWS::ApplicationAutoScaling::ScalingPolicy":
				zone := name[len(name)-1:]
				f.check(get(p, "ScalingTargetId") == "<Target"+zone+">", "%s: target", name)
				checkTracking(&f, name, metric, get(p, "TargetTrackingScalingPolicyConfiguration"), "eu-1"+strings.ToLower(zone))
			}
		}
		slices.Sort(scaled)
		f.check(slices.Equal(scaled, services), "scaled: %v", scaled)
		f.check(len(resources) == 2*len(services), "a target without policy")
	}
	slices.Sort(f)
	return slices.Compact(f)
}

// checkTracking checks the policy of a zone.
func checkTracking(f *faults, name, metric string, p any, zone string) {
	f.check(get(p, "ScaleOutCooldown") == "0", "%s: waits before it adds agents", name)
	f.check(get(p, "ScaleInCooldown") == "300", "%s: removes agents after another time", name)
	cpu, custom := get(p, "PredefinedMetricSpecification"), get(p, "CustomizedMetricSpecification")
	if metric == "cpu" {
		f.check(get(p, "TargetValue") == "60", "%s: target of CPU", name)
		f.check(custom == nil && reflect.DeepEqual(cpu, object{"PredefinedMetricType": "ECSServiceAverageCPUUtilization"}), "%s: metric", name)
		return
	}
	f.check(get(p, "TargetValue") == "0.6", "%s: target of the utilization", name)
	f.check(cpu == nil && reflect.DeepEqual(custom, object{
		"Namespace": "Freshet", "MetricName": "freshet_zone_utilization_ratio", "Statistic": "Maximum",
		"Dimensions": []any{object{"Name": "virtual_cluster", "Value": "main"}, object{"Name": "zone", "Value": zone}},
	}), "%s: metric", name)
}

// TestScaling_KeepsItsRules checks scaling.yaml against the services of cloudformation.yaml.
func TestScaling_KeepsItsRules(t *testing.T) {
	text := readFile(t, "scaling.yaml")
	require.Empty(t, checkScaling(t, text))
	one := with(t, parse(t, text), map[string]string{"Cluster": "kafka"})
	require.Empty(t, one.refused())
	require.Len(t, one.resources(), 2)
	require.NotEmpty(t, with(t, parse(t, text), scalingFull, map[string]string{"Metric": "memory"}).refused())
}

// TestScaling_FindsFaults plants faults into copies of scaling.yaml. Each must be found.
func TestScaling_FindsFaults(t *testing.T) {
	text := readFile(t, "scaling.yaml")
	for _, tc := range []struct{ old, planted, want string }{
		{"agent-${ZoneB}", "agents-${ZoneB}", "scaled: "},
		{"agent-${ZoneC}", "agent-${ZoneA}", "scaled: "},
		{"ScalingTargetId: !Ref TargetB", "ScalingTargetId: !Ref TargetA", "PolicyB: target"},
		{"ScaleOutCooldown: 0", "ScaleOutCooldown: 60", "PolicyA: waits"},
		{"ScaleInCooldown: 300", "ScaleInCooldown: 30", "PolicyC: removes"},
		{"[OfCpu, 60, 0.6]", "[OfCpu, 0.6, 0.6]", "PolicyA: target of CPU"},
		{"[OfCpu, 60, 0.6]", "[OfCpu, 60, 60]", "PolicyA: target of the utilization"},
		{"Name: zone, Value: !Ref ZoneC", "Name: zone, Value: !Ref ZoneA", "PolicyC: metric"},
		{"ECSServiceAverageCPUUtilization", "ECSServiceAverageMemoryUtilization", "PolicyA: metric"},
		{"MaxCapacity: !Ref MaxCount", "MaxCapacity: !Ref MinCount", "TargetA: bounds"},
	} {
		t.Run(tc.planted, func(t *testing.T) {
			require.Contains(t, text, tc.old)
			require.Contains(t, strings.Join(checkScaling(t, strings.ReplaceAll(text, tc.old, tc.planted)), "\n"), tc.want)
		})
	}
}

// TestScaling_HasTheMetric: the metric that scaling.yaml tracks is one of the program.
func TestScaling_HasTheMetric(t *testing.T) {
	require.Contains(t, readFile(t, "../../docs/scaling.md"), "`freshet_zone_utilization_ratio`")
}

// TestReadme_NamesParametersOfOthers: README.md explains each parameter of the other templates.
func TestReadme_NamesParametersOfOthers(t *testing.T) {
	for file, heading := range map[string]string{"ec2.yaml": "\n## EC2 instances\n", "etcd.yaml": "\n## etcd on EC2\n", "provider.yaml": "\n## Control planes for tenants\n", "scaling.yaml": "\n## Scaling\n"} {
		_, section, ok := strings.Cut(readFile(t, "README.md"), heading)
		require.True(t, ok, heading)
		section, _, _ = strings.Cut(section, "\n## ")
		for name := range parse(t, readFile(t, file))["Parameters"].(object) {
			require.Contains(t, section, "`"+name+"`", file)
		}
	}
}

// TestCfnLint_OfOthers: cfn-lint accepts the other templates, and refuses copies with a misspelt property.
func TestCfnLint_OfOthers(t *testing.T) {
	program := os.Getenv("FRESHET_CFN_LINT")
	if program == "" {
		t.Skip("FRESHET_CFN_LINT names no cfn-lint: run make lint-deploy")
	}
	args := []string{"--format", "json"}
	misspelt := map[string]string{"ec2.yaml": "ManagedDraining", "etcd.yaml": "HttpTokens", "provider.yaml": "ReadonlyRootFilesystem", "scaling.yaml": "ScaleInCooldown"}
	copies := map[string]string{}
	for file, property := range misspelt {
		text, path := readFile(t, file), filepath.Join(t.TempDir(), file)
		require.Contains(t, text, property)
		require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(text, property, property+"s")), 0o600))
		args, copies[path] = append(args, file, path), property+"s"
	}
	out, err := exec.CommandContext(t.Context(), program, args...).Output()
	var exit *exec.ExitError
	require.True(t, errors.As(err, &exit), "%v", err)
	var matches []struct{ Filename, Message string }
	require.NoError(t, json.Unmarshal(out, &matches), "%s\n%s", out, exit.Stderr)
	for _, m := range matches {
		property, ok := copies[m.Filename]
		require.True(t, ok, "%s: %s", m.Filename, m.Message)
		require.Contains(t, m.Message, "'"+property+"' was unexpected")
		delete(misspelt, filepath.Base(m.Filename))
	}
	require.Empty(t, misspelt)
}
