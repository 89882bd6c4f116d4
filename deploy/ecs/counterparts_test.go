package ecs

import "fmt"

// counterparts maps the arguments of each Terraform type to the properties of its CloudFormation type. The parts of a path are divided by slashes.
// "#" is an index, and a final "*" is the rest. "" marks an argument without a counterpart.
var counterparts = map[string]map[string]string{
	"aws_autoscaling_group": {
		"name_prefix": "", "min_size": "MinSize", "max_size": "MaxSize", "vpc_zone_identifier/#": "VPCZoneIdentifier/#",
		"protect_from_scale_in": "NewInstancesProtectedFromScaleIn", "launch_template/0/id": "LaunchTemplate/LaunchTemplateId",
		"launch_template/0/version": "LaunchTemplate/Version", "tag/#/value": "Tags/#/Value", "tag/#/propagate_at_launch": "Tags/#/PropagateAtLaunch",
		// CloudFormation waits until the instances have ended.
		"force_delete": "",
	},
	"aws_cloudwatch_log_group": {"name_prefix": "", "retention_in_days": "RetentionInDays"},
	"aws_ecs_cluster":          {"name": "ClusterName"},
	"aws_ecs_capacity_provider": {
		"name": "Name",
		"auto_scaling_group_provider/0/auto_scaling_group_arn":            "AutoScalingGroupProvider/AutoScalingGroupArn",
		"auto_scaling_group_provider/0/managed_termination_protection":    "AutoScalingGroupProvider/ManagedTerminationProtection",
		"auto_scaling_group_provider/0/managed_draining":                  "AutoScalingGroupProvider/ManagedDraining",
		"auto_scaling_group_provider/0/managed_scaling/0/status":          "AutoScalingGroupProvider/ManagedScaling/Status",
		"auto_scaling_group_provider/0/managed_scaling/0/target_capacity": "AutoScalingGroupProvider/ManagedScaling/TargetCapacity",
	},
	"aws_ecs_cluster_capacity_providers": {"cluster_name": "Cluster", "capacity_providers/#": "CapacityProviders/#"},
	"aws_ecs_service": {
		"capacity_provider_strategy/#/capacity_provider": "CapacityProviderStrategy/#/CapacityProvider",
		"capacity_provider_strategy/#/weight":            "CapacityProviderStrategy/#/Weight",
		"placement_constraints/#/type":                   "PlacementConstraints/#/Type",

		"name": "ServiceName", "cluster": "Cluster", "task_definition": "TaskDefinition", "launch_type": "LaunchType", "desired_count": "DesiredCount",
		// CloudFormation always waits.
		"wait_for_steady_state":                     "",
		"deployment_minimum_healthy_percent":        "DeploymentConfiguration/MinimumHealthyPercent",
		"deployment_maximum_percent":                "DeploymentConfiguration/MaximumPercent",
		"deployment_circuit_breaker/0/enable":       "DeploymentConfiguration/DeploymentCircuitBreaker/Enable",
		"deployment_circuit_breaker/0/rollback":     "DeploymentConfiguration/DeploymentCircuitBreaker/Rollback",
		"network_configuration/0/subnets/#":         "NetworkConfiguration/AwsvpcConfiguration/Subnets/#",
		"network_configuration/0/security_groups/#": "NetworkConfiguration/AwsvpcConfiguration/SecurityGroups/#",
		"service_registries/#/registry_arn":         "ServiceRegistries/#/RegistryArn",
		"health_check_grace_period_seconds":         "HealthCheckGracePeriodSeconds",
		"load_balancer/#/container_name":            "LoadBalancers/#/ContainerName",
		"load_balancer/#/container_port":            "LoadBalancers/#/ContainerPort",
		"load_balancer/#/target_group_arn":          "LoadBalancers/#/TargetGroupArn",
	},
	"aws_ecs_task_definition": {
		"family": "Family", "requires_compatibilities/#": "RequiresCompatibilities/#", "network_mode": "NetworkMode", "cpu": "Cpu", "memory": "Memory",
		"runtime_platform/0/cpu_architecture":        "RuntimePlatform/CpuArchitecture",
		"runtime_platform/0/operating_system_family": "RuntimePlatform/OperatingSystemFamily",
		"execution_role_arn":                         "ExecutionRoleArn", "task_role_arn": "TaskRoleArn", "container_definitions/*": "ContainerDefinitions/*",
		// CloudFormation keeps the old revision until the roll-out is over.
		"skip_destroy": "",
	},
	"aws_iam_instance_profile":       {"name_prefix": "", "role": "Roles/0"},
	"aws_iam_role_policy_attachment": {"role": "of", "policy_arn": "ManagedPolicyArns/0"},
	"aws_iam_role":                   {"name_prefix": "", "assume_role_policy/*": "AssumeRolePolicyDocument/*"},
	"aws_iam_role_policy": {
		"role": "of", "name": "Policies/0/PolicyName", "policy/*": "Policies/0/PolicyDocument/*",
	},
	"aws_launch_template": {
		"name_prefix": "", "image_id": "LaunchTemplateData/ImageId", "instance_type": "LaunchTemplateData/InstanceType", "user_data": "LaunchTemplateData/UserData",
		"iam_instance_profile/0/arn":                          "LaunchTemplateData/IamInstanceProfile/Arn",
		"metadata_options/0/http_tokens":                      "LaunchTemplateData/MetadataOptions/HttpTokens",
		"metadata_options/0/http_put_response_hop_limit":      "LaunchTemplateData/MetadataOptions/HttpPutResponseHopLimit",
		"network_interfaces/#/device_index":                   "LaunchTemplateData/NetworkInterfaces/#/DeviceIndex",
		"network_interfaces/#/associate_public_ip_address":    "LaunchTemplateData/NetworkInterfaces/#/AssociatePublicIpAddress",
		"network_interfaces/#/delete_on_termination":          "LaunchTemplateData/NetworkInterfaces/#/DeleteOnTermination",
		"network_interfaces/#/security_groups/0":              "LaunchTemplateData/NetworkInterfaces/#/Groups/0",
		"block_device_mappings/#/device_name":                 "LaunchTemplateData/BlockDeviceMappings/#/DeviceName",
		"block_device_mappings/#/ebs/0/volume_type":           "LaunchTemplateData/BlockDeviceMappings/#/Ebs/VolumeType",
		"block_device_mappings/#/ebs/0/volume_size":           "LaunchTemplateData/BlockDeviceMappings/#/Ebs/VolumeSize",
		"block_device_mappings/#/ebs/0/encrypted":             "LaunchTemplateData/BlockDeviceMappings/#/Ebs/Encrypted",
		"block_device_mappings/#/ebs/0/delete_on_termination": "LaunchTemplateData/BlockDeviceMappings/#/Ebs/DeleteOnTermination",
	},
	"aws_lb": {
		"name_prefix": "", "load_balancer_type": "Type", "internal": "Scheme", "subnets/#": "Subnets/#", "security_groups/#": "SecurityGroups/#",
		"enable_cross_zone_load_balancing": "LoadBalancerAttributes/load_balancing.cross_zone.enabled/Value",
	},
	"aws_lb_listener": {
		"load_balancer_arn": "LoadBalancerArn", "protocol": "Protocol", "port": "Port", "default_action/#/type": "DefaultActions/#/Type",
		"default_action/#/target_group_arn": "DefaultActions/#/TargetGroupArn", "tcp_idle_timeout_seconds": "ListenerAttributes/tcp.idle_timeout.seconds/Value",
	},
	"aws_lb_target_group": {
		"name_prefix": "", "vpc_id": "VpcId", "target_type": "TargetType", "protocol": "Protocol", "port": "Port",
		"preserve_client_ip":      "TargetGroupAttributes/preserve_client_ip.enabled/Value",
		"deregistration_delay":    "TargetGroupAttributes/deregistration_delay.timeout_seconds/Value",
		"health_check/0/protocol": "HealthCheckProtocol", "health_check/0/port": "HealthCheckPort", "health_check/0/path": "HealthCheckPath",
		"health_check/0/interval": "HealthCheckIntervalSeconds", "health_check/0/timeout": "HealthCheckTimeoutSeconds",
		"health_check/0/healthy_threshold": "HealthyThresholdCount", "health_check/0/unhealthy_threshold": "UnhealthyThresholdCount",
	},
	"aws_s3_bucket": {"bucket_prefix": ""},
	"aws_s3_bucket_server_side_encryption_configuration": {
		"bucket": "of",
		"rule/#/apply_server_side_encryption_by_default/0/sse_algorithm": "BucketEncryption/ServerSideEncryptionConfiguration/#/ServerSideEncryptionByDefault/SSEAlgorithm",
	},
	"aws_s3_bucket_ownership_controls": {"bucket": "of", "rule/#/object_ownership": "OwnershipControls/Rules/#/ObjectOwnership"},
	"aws_s3_bucket_public_access_block": {
		"bucket": "of", "block_public_acls": "PublicAccessBlockConfiguration/BlockPublicAcls", "block_public_policy": "PublicAccessBlockConfiguration/BlockPublicPolicy",
		"ignore_public_acls": "PublicAccessBlockConfiguration/IgnorePublicAcls", "restrict_public_buckets": "PublicAccessBlockConfiguration/RestrictPublicBuckets",
	},
	"aws_s3_bucket_lifecycle_configuration": {
		"bucket": "of", "rule/#/id": "LifecycleConfiguration/Rules/#/Id", "rule/#/status": "LifecycleConfiguration/Rules/#/Status",
		"rule/#/abort_incomplete_multipart_upload/0/days_after_initiation": "LifecycleConfiguration/Rules/#/AbortIncompleteMultipartUpload/DaysAfterInitiation",
	},
	"aws_secretsmanager_secret": {"name_prefix": "", "description": "Description"},
	"aws_secretsmanager_secret_version": {
		"secret_id": "of", "secret_string_wo": "", "secret_string_wo_version": "",
	},
	"aws_security_group": {"name_prefix": "", "description": "GroupDescription", "vpc_id": "VpcId"},
	"aws_vpc_security_group_egress_rule": {
		"security_group_id": "of", "ip_protocol": "Egress/IpProtocol", "from_port": "Egress/FromPort", "to_port": "Egress/ToPort", "cidr_ipv4": "Egress/CidrIp",
		"referenced_security_group_id": "Egress/Group", "description": "Egress/Description",
	},
	"aws_vpc_security_group_ingress_rule": {
		"security_group_id": "of", "ip_protocol": "Ingress/IpProtocol", "from_port": "Ingress/FromPort", "to_port": "Ingress/ToPort", "cidr_ipv4": "Ingress/CidrIp",
		"referenced_security_group_id": "Ingress/Group", "description": "Ingress/Description",
	},
	"aws_service_discovery_private_dns_namespace": {"name": "Name", "vpc": "Vpc"},
	"aws_service_discovery_service": {
		"name": "Name", "dns_config/0/namespace_id": "NamespaceId", "dns_config/0/routing_policy": "DnsConfig/RoutingPolicy",
		"dns_config/0/dns_records/#/type": "DnsConfig/DnsRecords/#/Type", "dns_config/0/dns_records/#/ttl": "DnsConfig/DnsRecords/#/TTL",
		"health_check_custom_config/0/failure_threshold": "HealthCheckCustomConfig/FailureThreshold",
	},
	"aws_vpc_endpoint": {
		"vpc_id": "VpcId", "vpc_endpoint_type": "VpcEndpointType", "service_name": "ServiceName", "private_dns_enabled": "PrivateDnsEnabled",
		"route_table_ids/#": "RouteTableIds/#", "subnet_ids/#": "SubnetIds/#", "security_group_ids/#": "SecurityGroupIds/#",
	},
	"aws_secretsmanager_random_password": {"password_length": "GenerateSecretString/PasswordLength", "exclude_punctuation": "GenerateSecretString/ExcludePunctuation"},
}

// wording are values that the two languages name differently.
var wording = map[string]string{"internal=true": "internal"}

// names maps the addresses of the module's resources to the template's names.
func names() map[string]string {
	all := map[string]string{
		"aws_cloudwatch_log_group.this": "LogGroup", "aws_ecs_cluster.this": "Cluster", "aws_ecs_service.control_plane": "ControlPlaneService",
		"aws_ecs_task_definition.control_plane": "ControlPlaneTask", "aws_iam_role.agent": "AgentRole", "aws_iam_role.control_plane": "ControlPlaneRole",
		"aws_iam_role.execution": "ExecutionRole", "aws_s3_bucket.records[0]": "Records", `aws_secretsmanager_secret.key["agent"]`: "AgentKey",
		`aws_secretsmanager_secret.key["operator"]`: "OperatorKey", `aws_secretsmanager_secret.key["read-only"]`: "ReadOnlyKey",
		`ephemeral.aws_secretsmanager_random_password.key["operator"]`: "OperatorKey", `ephemeral.aws_secretsmanager_random_password.key["read-only"]`: "ReadOnlyKey",
		`ephemeral.aws_secretsmanager_random_password.key["agent"]`: "AgentKey", "aws_security_group.agents": "Agents", "aws_security_group.balancers[0]": "BalancerGroup",
		"aws_security_group.control_planes": "ControlPlanes", "aws_security_group.endpoints[0]": "EndpointGroup",
		"aws_service_discovery_private_dns_namespace.this": "Names", "aws_service_discovery_service.control_plane": "ControlPlaneName",
		"aws_vpc_endpoint.gateway[0]": "S3Endpoint", `aws_vpc_endpoint.interface["ecr.api"]`: "EcrApiEndpoint",
		`aws_vpc_endpoint.interface["ecr.dkr"]`: "EcrDkrEndpoint", `aws_vpc_endpoint.interface["logs"]`: "LogsEndpoint",
		`aws_vpc_endpoint.interface["secretsmanager"]`: "SecretsEndpoint",
		// Of ec2.yaml.
		"aws_ecs_cluster_capacity_providers.this[0]": "Providers", "aws_iam_instance_profile.this[0]": "Profile", "aws_iam_role.instance[0]": "InstanceRole",
		"aws_launch_template.this[0]": "Template", "aws_security_group.instances[0]": "Instances", `aws_vpc_endpoint.interface["ecs"]`: "EcsEndpoint",
		`aws_vpc_endpoint.interface["ecs-agent"]`: "EcsAgentEndpoint", `aws_vpc_endpoint.interface["ecs-telemetry"]`: "EcsTelemetryEndpoint",
	}
	for letter, zone := range map[string]string{"A": "eu-1a", "B": "eu-1b", "C": "eu-1c"} {
		for address, name := range map[string]string{
			"aws_ecs_service.agents": "Service", "aws_ecs_task_definition.agent": "Task", "aws_lb.zone": "Balancer", "aws_service_discovery_service.agents": "Name",
			"aws_autoscaling_group.zone": "Group", "aws_ecs_capacity_provider.zone": "Provider",
		} {
			all[fmt.Sprintf("%s[%q]", address, zone)] = name + letter
		}
		for i := range 4 {
			all[fmt.Sprintf("aws_lb_target_group.agents[%q]", fmt.Sprint(zone, "-", 9192+i))] = fmt.Sprint("Targets", letter, i+1)
			all[fmt.Sprintf("aws_lb_listener.agents[%q]", fmt.Sprint(zone, "-", 9192+i))] = fmt.Sprint("Listener", letter, i+1)
		}
	}
	return all
}

// outputs are the module's outputs and the template's.
var outputs = map[string]string{
	"bootstrap": "Bootstrap", "bootstrap_by_load_balancers": "BootstrapByLoadBalancers", "control_plane_http": "ControlPlaneHttp", "cluster_name": "ClusterName",
	"agent_services": "AgentServices", "bucket_name": "BucketName", "operator_key_secret": "OperatorKeySecret", "read_only_key_secret": "ReadOnlyKeySecret", "control_plane_security_group": "ControlPlaneSecurityGroup",
}

// others are parameters of a stack that brings its own bucket and keys, with other values than the defaults.
var others = map[string]string{
	"Bucket": "records", "StateBucket": "state", "BucketOptions": "&endpoint=http://10.0.0.9:9000", "Prefix": "team/freshet", "VirtualCluster": "other", "Namespace": "kafka.internal",
	"AgentKeySecretArn": secretArn("agent-key"), "OperatorKeySecretArn": secretArn("operator-key"), "ReadOnlyKeySecretArn": secretArn("read-only-key"), "Architecture": "ARM64", "AgentCpu": "4096", "AgentMemory": "8192",
	"ControlPlaneCpu": "1024", "ControlPlaneMemory": "2048", "DrainSeconds": "100", "LogRetentionDays": "90", "EtcdTls": "false",
	"InstanceType": "c7g.large", "MaxInstances": "6", "TargetCapacity": "80",
}
