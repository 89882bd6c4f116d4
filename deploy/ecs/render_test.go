package ecs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// moduleDir is the Terraform module.
const moduleDir = "terraform"

// rendering is the output of tools/deploy.
type rendering struct {
	Refused   []string
	Resources map[string]struct {
		Type           string
		Values         object
		DependsOn      []string `json:"depends_on"`
		IgnoreChanges  []string `json:"ignore_changes"`
		PreventDestroy bool     `json:"prevent_destroy"`
	}
	Outputs object
}

// request is the input of tools/deploy.
type request struct {
	Variables object `json:"variables,omitempty"`
	Data      object `json:"data"`
	Example   string `json:"example,omitempty"`
	Plan      bool   `json:"plan,omitempty"`
}

// renderer returns the path of tools/deploy's program, or skips the test.
func renderer(t *testing.T) string {
	t.Helper()
	program := os.Getenv("FRESHET_RENDER")
	if program == "" {
		t.Skip("FRESHET_RENDER names no program of tools/deploy: run make lint-deploy")
	}
	return program
}

// render evaluates the module in a directory.
func render(t *testing.T, dir string, req request) (*rendering, error) {
	t.Helper()
	in, err := json.Marshal(req)
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), renderer(t), dir)
	command.Stdin = bytes.NewReader(in)
	out, err := command.Output()
	if err != nil {
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		return nil, errors.New(string(exit.Stderr))
	}
	var r rendering
	require.NoError(t, numbers(out, &r))
	return &r, nil
}

// numbers decodes JSON, with numbers as they are written.
func numbers(text []byte, to any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(to)
}

// copied returns a copy of the module with a text replaced.
func copied(t *testing.T, old, planted string) string {
	t.Helper()
	dir, found := t.TempDir(), false
	files, err := filepath.Glob(filepath.Join(moduleDir, "*.tf"))
	require.NoError(t, err)
	for _, path := range files {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		found = found || strings.Contains(string(text), old)
		require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(path)), []byte(strings.ReplaceAll(string(text), old, planted)), 0o600))
	}
	require.True(t, found, old)
	return dir
}

// instances returns the variable ec2.
func instances(t *testing.T, s *stack) any {
	t.Helper()
	if s.instances == nil {
		return nil
	}
	p := s.instances.parameters
	greatest, err := strconv.Atoi(p["MaxInstances"])
	require.NoError(t, err)
	used, err := strconv.Atoi(p["TargetCapacity"])
	require.NoError(t, err)
	return object{"instance_type": p["InstanceType"], "max_instances": greatest, "target_capacity": used}
}

// variables returns the module's variables for the parameters of a stack, and the data sources of that AWS.
func variables(t *testing.T, s *stack) request {
	t.Helper()
	p := s.parameters
	number := func(name string) int {
		n, err := strconv.Atoi(p[name])
		require.NoError(t, err)
		return n
	}
	list := func(names ...string) []any {
		all := []any{}
		for _, name := range names {
			for e := range strings.SplitSeq(p[name], ",") {
				if e != "" {
					all = append(all, e)
				}
			}
		}
		return all
	}
	null := func(name string) any {
		if p[name] == "" {
			return nil
		}
		return p[name]
	}
	data := object{
		"aws_region.current": object{"region": p["AWS::Region"]}, "aws_partition.current": object{"partition": p["AWS::Partition"]},
		"aws_caller_identity.current": object{"account_id": p["AWS::AccountId"]},
	}
	zones, clientZones := []any{}, []any{}
	for _, z := range []string{"A", "B", "C"} {
		if p["Zone"+z] != "" {
			zones = append(zones, object{"name": p["Zone"+z], "subnet_id": p["Subnet"+z], "cidr": p["Cidr"+z]})
			data[fmt.Sprintf("aws_subnet.zone[%q]", p["Zone"+z])] = object{"availability_zone": p["Zone"+z], "cidr_block": p["Cidr"+z], "vpc_id": p["Vpc"]}
		}
	}
	for _, e := range list("ClientZones") {
		cidr, zone, _ := strings.Cut(e.(string), "=")
		clientZones = append(clientZones, object{"cidr": cidr, "zone": zone})
	}
	return request{Data: data, Variables: object{
		"name": p["AWS::StackName"], "vpc_id": p["Vpc"], "zones": zones, "route_table_ids": list("RouteTables"),
		"interface_endpoints": p["InterfaceEndpoints"] == "true", "client_cidrs": list("ClientCidr1", "ClientCidr2", "ClientCidr3"),
		"client_zones": clientZones, "operator_cidrs": list("OperatorCidr"), "load_balancers": p["LoadBalancers"] == "true",
		"namespace": p["Namespace"], "image": p["Image"], "ecr_repository_arn": null("EcrRepositoryArn"), "architecture": p["Architecture"],
		"agent_cpu": number("AgentCpu"), "agent_memory": number("AgentMemory"), "drain_seconds": number("DrainSeconds"),
		"control_plane_cpu": number("ControlPlaneCpu"), "control_plane_memory": number("ControlPlaneMemory"),
		"virtual_cluster": p["VirtualCluster"], "agent_key_secret_arn": null("AgentKeySecretArn"),
		"operator_key_secret_arn": null("OperatorKeySecretArn"), "read_only_key_secret_arn": null("ReadOnlyKeySecretArn"), "log_retention_days": number("LogRetentionDays"),
		"bucket": null("Bucket"), "state_bucket": null("StateBucket"), "prefix": p["Prefix"], "bucket_options": p["BucketOptions"], "etcd_endpoints": list("EtcdEndpoints"),
		"etcd_tls": p["EtcdTls"] == "true", "etcd_security_group_id": null("EtcdClientGroup"), "etcd_ca_secret_arn": null("EtcdCaSecretArn"),
		"etcd_cert_secret_arn": null("EtcdCertSecretArn"), "etcd_key_secret_arn": null("EtcdKeySecretArn"), "ec2": instances(t, s),
	}}
}
