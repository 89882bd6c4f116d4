package ecs

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTemplate_KeepsItsRules checks the template of the tree.
func TestTemplate_KeepsItsRules(t *testing.T) { require.Empty(t, checkTemplate(t, source(t))) }

// TestTemplate_FindsFaults plants faults into copies of the template. Each must be found.
func TestTemplate_FindsFaults(t *testing.T) {
	text := source(t)
	for _, tc := range []struct{ old, planted, want string }{
		{"{Key: preserve_client_ip.enabled, Value: 'true'}", "{Key: preserve_client_ip.enabled, Value: 'false'}", "TargetsA1: agents see"},
		{"load_balancing.cross_zone.enabled, Value: 'false'", "load_balancing.cross_zone.enabled, Value: 'true'", "BalancerA: crosses"},
		{"tcp.idle_timeout.seconds, Value: '600'", "tcp.idle_timeout.seconds, Value: '350'", "ListenerA1: idle"},
		{"deregistration_delay.timeout_seconds, Value: '15'", "deregistration_delay.timeout_seconds, Value: '300'", "TargetsA1: deregistration"},
		{"HealthCheckPath: /readyz", "HealthCheckPath: /livez", "TargetsA1: health check"},
		{"[{RegistryArn: !GetAtt NameA.Arn}]", "[{RegistryArn: !GetAtt NameA.Arn}, {RegistryArn: !GetAtt ControlPlaneName.Arn}]", "ServiceA: not one registry"},
		{"      ServiceRegistries: [{RegistryArn: !GetAtt NameA.Arn}]\n", "", "ServiceA: not one registry"},
		{"      TaskDefinition: !Ref TaskA\n", "      TaskDefinition: !Ref TaskA\n      DesiredCount: 1\n", "ServiceA: DesiredCount"},
		{"MinimumHealthyPercent: 100", "MinimumHealthyPercent: 50", "ServiceA: MinimumHealthyPercent"},
		{"MaximumPercent: 200", "MaximumPercent: 100", "ControlPlaneService: MaximumPercent"},
		{"Rollback: true", "Rollback: false", "ServiceA: no rollback"},
		{"DeploymentCircuitBreaker: {Enable: true", "DeploymentCircuitBreaker: {Enable: false", "ServiceA: no circuit breaker"},
		{"'10': {Stop: 20}", "'10': {Stop: 10}", "stopTimeout 10 of a drain of 10"},
		{"StopTimeout: !FindInMap [Drain, !Ref DrainSeconds, Stop]", "StopTimeout: 30", "TaskA: stopTimeout"},
		{"SoftLimit: 1048576", "SoftLimit: 1024", "TaskA: nofile"},
		{"health, 'http://127.0.0.1:8080/readyz'", "health, 'http://127.0.0.1:8081/readyz'", "TaskA: health check"},
		{"health, 'http://127.0.0.1:8090/startedz'", "health, 'http://127.0.0.1:8090/livez'", "ControlPlaneTask: health check"},
		{"health, 'http://127.0.0.1:8090/startedz'", "health, 'http://127.0.0.1:8090/readyz'", "ControlPlaneTask: health check"},
		{"ReadonlyRootFilesystem: true", "ReadonlyRootFilesystem: false", "TaskA: root file system"},
		{"FRESHET_DRAIN_TIMEOUT", "FRESHET_DRAIN_TIME", "freshet agent has no setting FRESHET_DRAIN_TIME"},
		{"FRESHET_ETCD_TLS", "FRESHET_ETCD_SSL", "freshet controlplane has no setting FRESHET_ETCD_SSL"},
		{"Secrets: [{Name: FRESHET_AGENT_KEY", "Secrets: [{Name: FRESHET_KEY", "TaskA: keys [FRESHET_KEY]"},
		{"Secrets: [{Name: FRESHET_AGENT_KEY", "Secrets: [{Name: FRESHET_OPERATOR_KEY, ValueFrom: k}, {Name: FRESHET_AGENT_KEY", "TaskB: keys [FRESHET_OPERATOR_KEY FRESHET_AGENT_KEY]"},
		{"        - {Name: FRESHET_READ_ONLY_KEY, ValueFrom: !If [MakesReadOnlyKey, !Ref ReadOnlyKey, !Ref ReadOnlyKeySecretArn]}\n", "", "ControlPlaneTask: keys [FRESHET_AGENT_KEY FRESHET_OPERATOR_KEY]"},
		{"{Name: FRESHET_ETCD_TLS, Value: !Ref EtcdTls}", "{Name: FRESHET_OPERATOR_KEY, Value: k}", "ControlPlaneTask: FRESHET_OPERATOR_KEY in plain text"},
		{"{Name: FRESHET_ETCD_TLS, Value: !Ref EtcdTls}", "{Name: FRESHET_READ_ONLY_KEY, Value: k}", "ControlPlaneTask: FRESHET_READ_ONLY_KEY in plain text"},
		{"':9092-9095'", "':9092-9096'", "TaskA: listeners"},
		{"FromPort: 7070, ToPort: 7070, Source", "FromPort: 7070, ToPort: 7071, Source", "open: AgentRules from 7070-7071 <Agents>"},
		{"FromPort: 8090, ToPort: 8090, CidrIp: !Ref OperatorCidr", "FromPort: 8090, ToPort: 8090, CidrIp: 0.0.0.0/0", "open: ControlPlaneRules from 8090-8090 0.0.0.0/0"},
		{"FromPort: 7050, ToPort: 7050, SourceSecurityGroupId: !Ref ControlPlanes", "FromPort: 7051, ToPort: 7051, SourceSecurityGroupId: !Ref ControlPlanes", "closed: ControlPlaneRules from 7050-7050 <ControlPlanes>"},
		{"${Name}/${Prefix}/*'", "${Name}/*'", "AgentRole: s3:GetObject beyond the prefix"},
		{"Condition: {StringLikeIfExists: {'s3:prefix': !Sub '${Prefix}/*'}}", "Sid: List", "ControlPlaneRole: lists the whole bucket"},
		{"Resource: !GetAtt LogGroup.Arn", "Resource: '*'", "ExecutionRole: [logs:CreateLogStream logs:PutLogEvents] of every resource"},
		{"    DeletionPolicy: Retain\n", "", "Records: goes with the stack"},
		{"AbortIncompleteMultipartUpload: {DaysAfterInitiation: 7}", "ExpirationInDays: 7", "Records: lifecycle"},
		{"{RetentionInDays: !Ref LogRetentionDays}", "{LogGroupClass: STANDARD}", "LogGroup: no retention"},
		{"{Subnets: [!Ref SubnetB]", "{Subnets: [!Ref SubnetA]", "ServiceB differs"},
		{"    Condition: BalancedC\n", "    Condition: Balanced\n", "BalancerC: condition"},
		{", !Ref ListenerB2,", ",", "ServiceB does not wait for ListenerB2"},
		{"!If [HasRouteTables, !Ref S3Endpoint, '']", "''", "ControlPlaneService does not wait for S3Endpoint"},
		{"LaunchType: !If [OnFargate, FARGATE, !Ref 'AWS::NoValue']", "LaunchType: FARGATE", "ServiceA: LaunchType on EC2"},
		{"LaunchType: !If [OnFargate, FARGATE, !Ref 'AWS::NoValue']", "SchedulingStrategy: REPLICA", "ControlPlaneService: not on Fargate"},
		{"{AwsvpcConfiguration: {Subnets: [!Ref SubnetA]", "{AwsvpcConfiguration: {AssignPublicIp: DISABLED, Subnets: [!Ref SubnetA]", "ServiceA: AssignPublicIp on EC2"},
		{"      ServiceName: controlplane\n", "      ServiceName: controlplane\n      PlatformVersion: LATEST\n", "ControlPlaneService: PlatformVersion on EC2"},
		{"RuntimePlatform: !If [OnFargate, {CpuArchitecture: !Ref Architecture, OperatingSystemFamily: LINUX}, !Ref 'AWS::NoValue']", "RuntimePlatform: {CpuArchitecture: !Ref Architecture, OperatingSystemFamily: LINUX}", "TaskA: RuntimePlatform on EC2"},
		{"RequiresCompatibilities: [!Ref LaunchType]", "RequiresCompatibilities: [FARGATE]", "ControlPlaneTask: RequiresCompatibilities on EC2"},
		{"[], [{Type: distinctInstance}]", "[], []", "ServiceA: tasks share an instance"},
		{"!If [OnFargate, [], [{Type: distinctInstance}]]", "[{Type: distinctInstance}]", "ControlPlaneService: PlacementConstraints on Fargate"},
		{"[{Weight: 1, CapacityProvider: !ImportValue {'Fn::Sub': '${AWS::StackName}-${SubnetB}'}}]", "[{Weight: 1, CapacityProvider: !ImportValue {'Fn::Sub': '${AWS::StackName}-${SubnetA}'}}]", "ServiceB: capacity providers [<ProviderA>]"},
		{"        !If [HasC, {Weight: 1, CapacityProvider: !ImportValue {'Fn::Sub': '${AWS::StackName}-${SubnetC}'}}, !Ref 'AWS::NoValue']]]", "      ]]", "ControlPlaneService: capacity providers [<ProviderA> <ProviderB>]"},
		{"Weight: 1", "Weight: 0", "ServiceA: weights"},
		{"SourceSecurityGroupId: !ImportValue {'Fn::Sub': '${AWS::StackName}-instances'}", "CidrIp: 10.0.0.0/8", "closed: EndpointGroup from 443-443 <Instances>"},
		{"Cluster: !Ref AWS::StackName", "Cluster: default", "ServiceA: cluster"},
		{"    DependsOn: ControlPlaneService\n", "", "ServiceA does not wait for control planes"},
		{"Description: Freshet,", "Description: Freshet," + strings.Repeat(" ", maxTemplate-len(text)), "the template has"},
	} {
		t.Run(tc.want, func(t *testing.T) {
			require.Contains(t, text, tc.old)
			found := checkTemplate(t, strings.ReplaceAll(text, tc.old, tc.planted))
			require.Contains(t, strings.Join(found, "\n"), tc.want)
		})
	}
}

// TestParameters_AreRefused: CloudFormation refuses zones, networks and addresses that cannot work, before it makes anything.
func TestParameters_AreRefused(t *testing.T) {
	root := parse(t, source(t))
	require.Empty(t, with(t, root).refused())
	require.Empty(t, with(t, root, full).refused())
	both := []string{"A and B must be two zones with a subnet each"}
	for name, tc := range map[string]struct {
		parameters map[string]string
		want       []string
	}{
		"no zone":                       {map[string]string{"ZoneA": ""}, []string{"ZoneA does not match"}},
		"one zone twice":                {map[string]string{"ZoneB": "eu-1a"}, both},
		"one subnet twice":              {map[string]string{"SubnetB": required["SubnetA"]}, both},
		"B and C are one zone":          {map[string]string{"ZoneC": "eu-1b"}, []string{"B and C must be two zones with a subnet each"}},
		"A and C are one zone":          {map[string]string{"ZoneC": "eu-1a"}, []string{"A and C must be two zones with a subnet each"}},
		"a subnet without zone":         {map[string]string{"ZoneB": ""}, []string{"SubnetB, ZoneB and CidrB belong together"}},
		"a zone without CIDR":           {map[string]string{"CidrC": ""}, []string{"SubnetC, ZoneC and CidrC belong together, after those of B"}},
		"C without B":                   {map[string]string{"SubnetB": "", "ZoneB": "", "CidrB": ""}, []string{"SubnetC, ZoneC and CidrC belong together, after those of B"}},
		"an octet above 255":            {map[string]string{"CidrA": "10.0.256.0/24"}, []string{"CidrA does not match"}},
		"three octets":                  {map[string]string{"CidrA": "10.0.1/24"}, []string{"CidrA does not match"}},
		"five octets":                   {map[string]string{"ClientCidr1": "10.0.1.0.0/24"}, []string{"ClientCidr1 does not match"}},
		"octets without a dot":          {map[string]string{"ClientCidr1": "1010.0.0/24"}, []string{"ClientCidr1 does not match"}},
		"a prefix length above 32":      {map[string]string{"ClientCidr2": "10.0.1.0/33"}, []string{"ClientCidr2 does not match"}},
		"no prefix length":              {map[string]string{"OperatorCidr": "10.0.1.0"}, []string{"OperatorCidr does not match"}},
		"a client zone without network": {map[string]string{"ClientZones": "eu-1a"}, []string{"ClientZones does not match"}},
		"etcd without port":             {map[string]string{"EtcdEndpoints": "etcd-1"}, []string{"EtcdEndpoints does not match"}},
		"no etcd":                       {map[string]string{"EtcdEndpoints": ""}, []string{"EtcdEndpoints does not match"}},
		"a drain without stopTimeout":   {map[string]string{"DrainSeconds": "119"}, []string{"DrainSeconds is not allowed"}},
		"a prefix with a slash":         {map[string]string{"Prefix": "freshet/"}, []string{"Prefix does not match"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, with(t, root, full, tc.parameters).refused())
		})
	}
}

// TestSettings_OfAgents compares the settings that depend on parameters.
func TestSettings_OfAgents(t *testing.T) {
	root := parse(t, source(t))
	of := func(s *stack, task string) object {
		return attributes(object{"Of": get(s.resources()[task], "Properties", "ContainerDefinitions", 0, "Environment")}, "Of")
	}
	require.Equal(t, object{
		"FRESHET_CONTROL_PLANE": "controlplane.freshet.internal:7050", "FRESHET_BUCKET": "s3://<Records>/freshet?region=eu-1",
		"FRESHET_ZONE": "eu-1a", "FRESHET_KAFKA_LISTEN": ":9092-9095", "FRESHET_ADVERTISE": "{ip}",
		"FRESHET_CLIENT_ZONES": "10.0.1.0/24=eu-1a", "FRESHET_DRAIN_TIMEOUT": "10s", "FRESHET_LOG_FORMAT": "json",
	}, of(with(t, root), "TaskA"))
	everything := with(t, root, full, map[string]string{"Bucket": "records", "BucketOptions": "&endpoint=http://10.0.0.9:9000"})
	got := of(everything, "TaskC")
	require.Equal(t, "eu-1c", got["FRESHET_ZONE"])
	require.Equal(t, "s3://records/freshet?region=eu-1&endpoint=http://10.0.0.9:9000", got["FRESHET_BUCKET"])
	require.Equal(t, "10.0.1.0/24=eu-1a,10.0.2.0/24=eu-1b,10.0.3.0/24=eu-1c,10.1.1.0/24=eu-1a", got["FRESHET_CLIENT_ZONES"])
	require.Equal(t, "external/eu-1a=<BalancerA.DNSName>:9192-9195,external/eu-1b=<BalancerB.DNSName>:9192-9195,external/eu-1c=<BalancerC.DNSName>:9192-9195",
		got["FRESHET_SHARED_ADVERTISE"])
	require.Equal(t, "eu-1a.freshet.internal:9092,eu-1b.freshet.internal:9092,eu-1c.freshet.internal:9092",
		everything.eval(get(root, "Outputs", "Bootstrap", "Value")))
}

// TestReadme_NamesAll: README.md explains each parameter and each setting.
func TestReadme_NamesAll(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	text := source(t)
	names := regexp.MustCompile(`FRESHET_[A-Z_]+`).FindAllString(text, -1)
	for name := range parse(t, text)["Parameters"].(object) {
		names = append(names, name)
	}
	for _, name := range names {
		require.Contains(t, string(readme), "`"+name+"`")
	}
}
