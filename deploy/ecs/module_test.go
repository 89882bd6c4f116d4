package ecs

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestParity_FindsFaults plants faults into copies of the module. Each must be found.
func TestParity_FindsFaults(t *testing.T) {
	renderer(t)
	everything := with(t, parse(t, source(t)), full, etcdSecrets)
	for _, tc := range []struct{ old, planted, want string }{
		{`FRESHET_ADVERTISE     = "{ip}"`, `FRESHET_ADVERTISE     = "{id}"`, `TaskA: ContainerDefinitions/0/Environment/FRESHET_ADVERTISE/Value is "{ip}" in the template, "{id}" in the module`},
		{`    "mode"                  = "non-blocking"`, `    "mode"                  = "blocking"`, "TaskC: ContainerDefinitions/0/LogConfiguration/Options/mode"},
		{"softLimit = 1048576", "softLimit = 4096", "TaskA: ContainerDefinitions/0/Ulimits/0/SoftLimit"},
		{"readonlyRootFilesystem", "readOnlyRootFilesystem", "TaskB: ContainerDefinitions/0/ReadOnlyRootFilesystem is \"true\" in the module alone"},
		{"7070, 8080] : {", "7070, 8081] : {", "TaskA: ContainerDefinitions/0/PortMappings/9/ContainerPort"},
		{`command = ["agent"]`, `command = ["agent", "--zone=a"]`, "TaskA: ContainerDefinitions/0/Command/1"},
		{"[for name, arn in local.etcd_secrets : {", "[for name, arn in {} : {", "ControlPlaneTask: ContainerDefinitions/0/Secrets/3/ValueFrom"},
		{"[for name, arn in local.etcd_secrets : arn])", "[])", "ExecutionRole: Policies/0/PolicyDocument/Statement/1/Resource/5"},
		{"var.drain_seconds + 10)\n", "30)\n", "TaskA: ContainerDefinitions/0/StopTimeout"},
		{"8090/startedz", "8090/readyz", "ControlPlaneTask: ContainerDefinitions/0/HealthCheck/Command/3"},
		{"retries     = 6", "retries     = 3", "TaskA: ContainerDefinitions/0/HealthCheck/Retries"},
		{"rollback = true", "rollback = false", "ServiceA: DeploymentConfiguration/DeploymentCircuitBreaker/Rollback"},
		{"minimum_healthy_percent = 100", "minimum_healthy_percent = 50", "ServiceA: DeploymentConfiguration/MinimumHealthyPercent"},
		{"ignore_changes = [desired_count]", "ignore_changes = []", `aws_ecs_service.agents["eu-1a"]: ignores changes of []`},
		{"desired_count         = 1\n", "desired_count         = 0\n", "ServiceA: DesiredCount"},
		{"    aws_lb_listener.agents,\n", "", `aws_ecs_service.agents["eu-1b"] does not wait for aws_lb_listener.agents`},
		{"    aws_vpc_endpoint.interface,\n", "", "aws_ecs_service.control_plane does not wait for aws_vpc_endpoint.interface"},
		{"    aws_vpc_endpoint.interface,\n", "    aws_vpc_endpoint.interfaces,\n", "depends_on aws_vpc_endpoint.interfaces, which the module does not have"},
		{"preserve_client_ip   = true", "preserve_client_ip   = false", "TargetsA1: TargetGroupAttributes/preserve_client_ip.enabled/Value"},
		{`path                = "/readyz"`, `path                = "/livez"`, "TargetsC4: HealthCheckPath"},
		{"unhealthy_threshold = 2", "unhealthy_threshold = 3", "TargetsA1: UnhealthyThresholdCount"},
		{"tcp_idle_timeout_seconds = 600", "tcp_idle_timeout_seconds = 350", "ListenerB2: ListenerAttributes/tcp.idle_timeout.seconds/Value"},
		{`ports = [8090, 8090], cidr = c`, `ports = [8090, 8090], cidr = "0.0.0.0/0"`, "ControlPlanes: Ingress tcp 8090 8090 0.0.0.0/0  operators and scalers"},
		{"ports = [2379, 2379]", "ports = [2380, 2380]", "ControlPlanes: Egress tcp 2379 2379 0.0.0.0/0  etcd"},
		{`, "s3:DeleteObject"]`, "]", "ControlPlaneRole: Policies/0/PolicyDocument/Statement/0/Action"},
		{`"${local.bucket_arn}/${var.prefix}/*"`, `"${local.bucket_arn}/*"`, "AgentRole: Policies/0/PolicyDocument/Statement/0/Resource"},
		{`"${aws_cloudwatch_log_group.this.arn}:*"`, "aws_cloudwatch_log_group.this.arn", "ExecutionRole: Policies/0/PolicyDocument/Statement/0/Resource"},
		{`task_role_arn            = aws_iam_role.agent.arn`, `task_role_arn            = aws_iam_role.control_plane.arn`, "TaskA: TaskRoleArn"},
		{"days_after_initiation = 7", "days_after_initiation = 1", "Records: LifecycleConfiguration/Rules/0/AbortIncompleteMultipartUpload/DaysAfterInitiation"},
		{"prevent_destroy = true", "prevent_destroy = false", "Records: stays"},
		{"block_public_acls       = true", "block_public_acls       = false", "Records: PublicAccessBlockConfiguration/BlockPublicAcls"},
		{`"logs", "secretsmanager"`, `"logs"`, "SecretsEndpoint is the template's alone"},
		{"private_dns_enabled = true", "private_dns_enabled = false", "EcrApiEndpoint: PrivateDnsEnabled"},
		{`registry_arn = aws_service_discovery_service.agents[each.key].arn`, `registry_arn = aws_service_discovery_service.control_plane.arn`, "ServiceA: ServiceRegistries/0/RegistryArn"},
		{"ttl  = 10", "ttl  = 60", "NameA: DnsConfig/DnsRecords/0/TTL"},
		{"secret_string_wo         = ", "secret_string            = ", "a key is in the state"},
		{`operator = "FRESHET_OPERATOR_KEY"`, `operator = "FRESHET_OPERATOR"`, "ControlPlaneTask: ContainerDefinitions/0/Secrets/1/Name"},
		{`valueFrom = local.keys["agent"]`, `valueFrom = local.keys["operator"]`, "TaskA: ContainerDefinitions/0/Secrets/0/ValueFrom"},
		{`value       = local.keys["read-only"]`, `value       = local.keys["operator"]`, "output read_only_key_secret"},
		{"concat([for kind, arn in local.keys : arn], [", "concat([", "ExecutionRole: Policies/0/PolicyDocument/Statement/1/Resource/0"},
		{"    aws_secretsmanager_secret_version.key,\n", "", "aws_ecs_service.control_plane does not wait for aws_secretsmanager_secret_version.key"},
		{"password_length     = 48", "password_length     = 8", "OperatorKey: GenerateSecretString/PasswordLength"},
		{`.${var.namespace}:8090"`, `.${var.namespace}:7050"`, "output control_plane_http"},
		{"each.value.subnet_id]\n  security_groups  ", "var.zones[0].subnet_id]\n  security_groups  ", "BalancerB: Subnets/0"},
		{"    enable   = true", "   enable   = true", "is not formatted"},
		{"local.bucket_url", "local.bucket_urls", "no local.bucket_urls"},
		{"aws_security_group.agents.id", "aws_security_group.agents.arn", "This object does not have an attribute named \"arn\""},
	} {
		t.Run(tc.want, func(t *testing.T) {
			require.Contains(t, strings.Join(checkParity(t, copied(t, tc.old, tc.planted), everything), "\n"), tc.want)
		})
	}
}

// TestParity_FindsFaultsOnEC2 plants faults into copies of the module, whose tasks run on EC2. Each must be found.
func TestParity_FindsFaultsOnEC2(t *testing.T) {
	renderer(t)
	everything := onEC2(t, parse(t, source(t)), full)
	for _, tc := range []struct{ old, planted, want string }{
		{`managed_draining               = "ENABLED"`, `managed_draining               = "DISABLED"`, "ProviderA: AutoScalingGroupProvider/ManagedDraining"},
		{`managed_termination_protection = "ENABLED"`, `managed_termination_protection = "DISABLED"`, "ProviderB: AutoScalingGroupProvider/ManagedTerminationProtection"},
		{`status          = "ENABLED"`, `status          = "DISABLED"`, "ProviderC: AutoScalingGroupProvider/ManagedScaling/Status"},
		{"target_capacity = var.ec2.target_capacity", "target_capacity = 50", "ProviderA: AutoScalingGroupProvider/ManagedScaling/TargetCapacity"},
		{"protect_from_scale_in = true", "protect_from_scale_in = false", "GroupA: NewInstancesProtectedFromScaleIn"},
		{"vpc_zone_identifier   = [each.value.subnet_id]", "vpc_zone_identifier   = var.zones[*].subnet_id", "GroupB: VPCZoneIdentifier/1"},
		{"min_size              = 0", "min_size              = 1", "GroupA: MinSize"},
		{`"AmazonECSManaged"`, `"Managed"`, "GroupC: Tags/AmazonECSManaged/Value"},
		{`["distinctInstance"]`, "[]", "ServiceA: PlacementConstraints/0/Type"},
		{`var.ec2 == null ? "FARGATE" : null`, `"FARGATE"`, `ControlPlaneService: LaunchType is "FARGATE" in the module alone`},
		{"[local.launch_type]", `["FARGATE"]`, "ControlPlaneTask: RequiresCompatibilities/0"},
		{"for_each = var.ec2 == null ? [1] : []", "for_each = [1]", "TaskA: RuntimePlatform/CpuArchitecture is"},
		{"aws_ecs_capacity_provider.zone[each.key].name", `"FARGATE"`, "ServiceB: CapacityProviderStrategy/0/CapacityProvider"},
		{"  capacity_providers = [for z in var.zones : aws_ecs_capacity_provider.zone[z.name].name]", `  capacity_providers = ["FARGATE"]`, "Providers: CapacityProviders/0"},
		{`http_tokens                 = "required"`, `http_tokens                 = "optional"`, "Template: LaunchTemplateData/MetadataOptions/HttpTokens"},
		{"associate_public_ip_address = false", "associate_public_ip_address = true", "Template: LaunchTemplateData/NetworkInterfaces/0/AssociatePublicIpAddress"},
		{"encrypted             = true", "encrypted             = false", "Template: LaunchTemplateData/BlockDeviceMappings/0/Ebs/Encrypted"},
		{"BLOCK_IMDS=true", "BLOCK_IMDS=false", "Template: LaunchTemplateData/UserData"},
		{`== "ARM64" ?`, `!= "ARM64" ?`, "Template: LaunchTemplateData/ImageId"},
		{"service-role/AmazonEC2ContainerServiceforEC2Role", "AdministratorAccess", "InstanceRole: ManagedPolicyArns/0"},
		{`"ecs-telemetry"]`, "]", "EcsTelemetryEndpoint is the template's alone"},
		{`instances-services = { of = g, ports = [443, 443]`, `instances-services = { of = g, ports = [0, 65535]`, "Instances: Egress tcp 0 65535"},
		{`group = g, description = "instances"`, `group = g, description = "EC2"`, "EndpointGroup: Ingress tcp 443 443  <Instances> instances"},
		{"    aws_ecs_cluster_capacity_providers.this,\n", "", "aws_ecs_service.control_plane does not wait for aws_ecs_cluster_capacity_providers.this"},
	} {
		t.Run(tc.want, func(t *testing.T) {
			require.Contains(t, strings.Join(checkParity(t, copied(t, tc.old, tc.planted), everything), "\n"), tc.want)
		})
	}
}

// TestModule_PlansWithoutIDs: before the first apply AWS has set nothing, and Terraform must know all instances of the module.
func TestModule_PlansWithoutIDs(t *testing.T) {
	req := variables(t, onEC2(t, parse(t, source(t)), full))
	applied, err := render(t, moduleDir, req)
	require.NoError(t, err)
	req.Plan = true
	planned, err := render(t, moduleDir, req)
	require.NoError(t, err)
	require.Equal(t, slices.Sorted(maps.Keys(applied.Resources)), slices.Sorted(maps.Keys(planned.Resources)))
	require.NotEmpty(t, planned.Resources)
	_, err = render(t, copied(t, "for_each = local.balanced\n", "for_each = toset(aws_security_group.balancers[*].id)\n"), req)
	require.ErrorContains(t, err, "for_each of aws_lb.zone is not known before apply")
}

// TestModule_RefusesVariables: the module refuses zones, networks and times that cannot work, and names the variable.
func TestModule_RefusesVariables(t *testing.T) {
	s := with(t, parse(t, source(t)), full)
	zone := func(name, subnet, cidr string) object { return object{"name": name, "subnet_id": subnet, "cidr": cidr} }
	a, network := zone("eu-1a", "subnet-0000000a", "10.0.1.0/24"), "client_cidrs must be IPv4 networks, as 10.0.0.0/16."
	badCidr, badStop := "zones: cidr must be an IPv4 network, as 10.0.1.0/24.", "stop_timeout_seconds must be at least 2 more than drain_seconds, and at most 120."
	badDrain := "drain_seconds must be a whole number from 5 to 110: Fargate stops a task after at most 120 s."
	for name, tc := range map[string]struct {
		variables object
		want      string
	}{
		"no zone":                      {object{"zones": []any{}}, "zones must have at least one zone."},
		"two subnets of one zone":      {object{"zones": []any{a, zone("eu-1a", "subnet-b", "10.0.2.0/24")}}, "zones must have one subnet for each zone: a name is there twice."},
		"one subnet of two zones":      {object{"zones": []any{a, zone("eu-1b", "subnet-0000000a", "10.0.2.0/24")}}, "zones must have a subnet of its own for each zone: a subnet is there twice."},
		"a zone without name":          {object{"zones": []any{zone("", "subnet-a", "10.0.1.0/24")}}, "zones: name must be an availability zone, as eu-central-1a."},
		"an octet above 255":           {object{"zones": []any{zone("eu-1a", "subnet-a", "10.0.256.0/24")}}, badCidr},
		"an address in a network":      {object{"zones": []any{zone("eu-1a", "subnet-a", "10.0.1.7/24")}}, badCidr},
		"three octets":                 {object{"client_cidrs": []any{"10.0.1/24"}}, network},
		"no prefix length":             {object{"client_cidrs": []any{"10.0.0.0/16", "10.1.0.0"}}, network},
		"a network of IPv6":            {object{"client_cidrs": []any{"2001:db8::/32"}}, network},
		"no network of clients":        {object{"client_cidrs": []any{}}, "client_cidrs must have at least one network."},
		"a prefix length above 32":     {object{"operator_cidrs": []any{"10.0.9.0/33"}}, "operator_cidrs must be IPv4 networks, as 10.0.9.0/24."},
		"a client zone without a name": {object{"client_zones": []any{object{"cidr": "10.0.9.0/24", "zone": ""}}}, "client_zones: zone must be an availability zone, as eu-central-1a."},
		"a drain below the program's":  {object{"drain_seconds": 4}, badDrain},
		"a drain beyond Fargate's":     {object{"drain_seconds": 111, "stop_timeout_seconds": 120}, badDrain},
		"stopTimeout below the drain":  {object{"drain_seconds": 30, "stop_timeout_seconds": 30}, badStop},
		"stopTimeout above 120":        {object{"stop_timeout_seconds": 121}, badStop},
		"the key in plain text": {
			object{"agent_environment": object{"FRESHET_AGENT_KEY": "k"}},
			"agent_environment must have names that start with FRESHET_, without FRESHET_AGENT_KEY: agent_key_secret_arn names the key.",
		},
		"an operator key in plain text": {
			object{"control_plane_environment": object{"FRESHET_OPERATOR_KEY": "k"}},
			"control_plane_environment must have names that start with FRESHET_, and no key: agent_key_secret_arn, operator_key_secret_arn and read_only_key_secret_arn name these.",
		},
		"the drain as a setting": {
			object{"agent_environment": object{"FRESHET_DRAIN_TIMEOUT": "90s"}},
			"agent_environment must not set FRESHET_DRAIN_TIMEOUT and FRESHET_ZONE: drain_seconds and zones do.",
		},
		"etcd without port":         {object{"etcd_endpoints": []any{"etcd-1"}}, "etcd_endpoints must have at least one member, each with port 2379, as etcd-1.internal:2379."},
		"no etcd":                   {object{"etcd_endpoints": []any{}}, "etcd_endpoints must have at least one member, each with port 2379, as etcd-1.internal:2379."},
		"one bucket twice":          {object{"bucket": "records", "state_bucket": "records"}, "state_bucket and bucket must be two buckets."},
		"a state bucket's URL":      {object{"state_bucket": "s3://state"}, "state_bucket must be the name of a bucket, or null."},
		"a prefix with a slash":     {object{"prefix": "freshet/"}, "prefix must be names with slashes between them, as team/freshet."},
		"a key without certificate": {object{"etcd_key_secret_arn": secretArn("client.key")}, "etcd_cert_secret_arn and etcd_key_secret_arn belong together."},
		"no instance type":          {object{"ec2": object{"instance_type": ""}}, "ec2: instance_type must be an instance type, as c7i.large."},
		"one instance":              {object{"ec2": object{"instance_type": "c7i.large", "max_instances": 1}}, "ec2: max_instances must be from 2 to 1000."},
		"more than all instances":   {object{"ec2": object{"instance_type": "c7i.large", "target_capacity": 101}}, "ec2: target_capacity must be from 1 to 100."},
		"another architecture":      {object{"architecture": "arm64"}, "architecture must be X86_64 or ARM64."},
	} {
		t.Run(name, func(t *testing.T) {
			req := variables(t, s)
			maps.Copy(req.Variables, tc.variables)
			r, err := render(t, moduleDir, req)
			require.NoError(t, err)
			require.Equal(t, []string{tc.want}, r.Refused)
			require.Empty(t, r.Resources)
		})
	}
	req := variables(t, s)
	req.Data[`aws_subnet.zone["eu-1b"]`].(object)["availability_zone"] = "eu-1c"
	r, err := render(t, moduleDir, req)
	require.NoError(t, err)
	require.Equal(t, []string{"zones: subnet-0000000b must be the subnet of vpc_id with zone eu-1b and CIDR 10.0.2.0/24."}, r.Refused)
}

// TestModule_Settings: agents and control planes get further settings, and stopTimeout may be longer.
func TestModule_Settings(t *testing.T) {
	req := variables(t, with(t, parse(t, source(t))))
	maps.Copy(req.Variables, object{
		"agent_environment": object{"FRESHET_LOG_LEVEL": "debug"}, "control_plane_environment": object{"FRESHET_LOG_FORMAT": "text"}, "stop_timeout_seconds": 60,
	})
	r, err := render(t, moduleDir, req)
	require.NoError(t, err)
	agent, _ := r.Resources[`aws_ecs_task_definition.agent["eu-1a"]`].Values["container_definitions"].(string)
	require.Contains(t, agent, `{"name":"FRESHET_LOG_LEVEL","value":"debug"}`)
	require.Contains(t, agent, `"stopTimeout":60`)
	plane, _ := r.Resources["aws_ecs_task_definition.control_plane"].Values["container_definitions"].(string)
	require.Contains(t, plane, `{"name":"FRESHET_LOG_FORMAT","value":"text"}`)
	require.NotContains(t, plane, `"value":"json"`)
}

// TestExamples: the module takes the examples, which are formatted.
func TestExamples(t *testing.T) {
	data := variables(t, with(t, parse(t, source(t)), full)).Data
	for i, zone := range []string{"eu-central-1a", "eu-central-1b", "eu-central-1c"} {
		cidr := []string{"10.0.1.0/24", "10.0.2.0/24", "10.0.3.0/24"}[i]
		data[`aws_subnet.zone["`+zone+`"]`] = object{"availability_zone": zone, "cidr_block": cidr, "vpc_id": "vpc-0123456789abcdef0"}
	}
	for name, services := range map[string]int{"ec2": 3, "one-zone": 2, "three-zones": 4} {
		r, err := render(t, moduleDir, request{Data: data, Example: filepath.Join(moduleDir, "examples", name)})
		require.NoError(t, err, name)
		require.Empty(t, r.Refused)
		found := 0
		for _, res := range r.Resources {
			if res.Type == "aws_ecs_service" {
				found++
			}
		}
		require.Equal(t, services, found, name)
	}
}
