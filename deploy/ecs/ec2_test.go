package ecs

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	// instancePolicy is the managed policy of the container agent.
	instancePolicy = "arn:aws:iam::aws:policy/service-role/AmazonEC2ContainerServiceforEC2Role"
	// imageParameter is the start of the parameters with the latest ECS-optimized images.
	imageParameter = "resolve:ssm:/aws/service/ecs/optimized-ami/amazon-linux-2023/"
)

// instanceStack returns the stack of ec2.yaml for a stack that is named kafka.
func instanceStack(t *testing.T, text string, more ...map[string]string) *stack {
	t.Helper()
	root := withoutBase64(parse(t, text)).(object)
	return with(t, root, append([]map[string]string{{"ClusterName": "kafka", "InstanceType": "c7i.large"}}, more...)...)
}

// onEC2 returns a stack with the launch type EC2, and with instances of ec2.yaml.
func onEC2(t *testing.T, root object, more ...map[string]string) *stack {
	t.Helper()
	s := with(t, root, append([]map[string]string{{"LaunchType": "EC2"}}, more...)...)
	s.instances = instanceStack(t, readFile(t, "ec2.yaml"), more...)
	return s
}

// zones returns the letters of the zones.
func (s *stack) zones() []string {
	if s.parameters["SubnetB"] == "" {
		return []string{"A"}
	}
	return []string{"A", "B", "C"}
}

// checkPlacement checks where ECS places the tasks of a service.
func checkPlacement(f *faults, s *stack, name string, p any) {
	constraints, strategy := list(get(p, "PlacementConstraints")), list(get(p, "CapacityProviderStrategy"))
	if s.instances == nil {
		f.check(get(p, "LaunchType") == "FARGATE", "%s: not on Fargate", name)
		f.check(len(constraints) == 0, "%s: PlacementConstraints on Fargate", name)
		f.check(len(strategy) == 0, "%s: CapacityProviderStrategy on Fargate", name)
		return
	}
	f.check(get(p, "LaunchType") == nil, "%s: LaunchType on EC2", name)
	f.check(get(p, "PlatformVersion") == nil, "%s: PlatformVersion on EC2", name)
	f.check(get(p, "NetworkConfiguration", "AwsvpcConfiguration", "AssignPublicIp") == nil, "%s: AssignPublicIp on EC2", name)
	f.check(reflect.DeepEqual(constraints, []any{object{"Type": "distinctInstance"}}), "%s: tasks share an instance", name)
	zones := s.zones()
	if zone, ok := strings.CutPrefix(name, "Service"); ok {
		zones = []string{zone}
	}
	var got, want []string
	for _, z := range zones {
		want = append(want, "<Provider"+z+">")
	}
	for _, e := range strategy {
		got = append(got, fmt.Sprint(get(e, "CapacityProvider")))
		f.check(get(e, "Weight") == "1", "%s: weights", name)
	}
	f.check(slices.Equal(got, want), "%s: capacity providers %v", name, got)
}

// checkLaunch checks the settings of a task definition that depend on the launch type.
func checkLaunch(f *faults, s *stack, name string, p any) {
	launch := s.parameters["LaunchType"]
	f.check(fmt.Sprint(get(p, "RequiresCompatibilities")) == "["+launch+"]", "%s: RequiresCompatibilities on %s", name, launch)
	f.check((get(p, "RuntimePlatform") != nil) == (s.instances == nil), "%s: RuntimePlatform on %s", name, launch)
	f.check(get(p, "NetworkMode") == "awsvpc", "%s: NetworkMode", name)
}

// checkEC2 returns the faults of ec2.yaml, with one zone and with everything.
func checkEC2(t *testing.T, text string) faults {
	t.Helper()
	var f faults
	f.check(len(text) < maxTemplate, "the template has %d bytes", len(text))
	for _, s := range []*stack{instanceStack(t, text), instanceStack(t, text, full, map[string]string{"Architecture": "ARM64"})} {
		resources := s.resources()
		checkInstanceTemplate(&f, s, get(resources["Template"], "Properties", "LaunchTemplateData"))
		checkInstanceRights(&f, resources)
		checkInstanceGroups(&f, s, resources)
		var providers []string
		for _, zone := range s.zones() {
			providers = append(providers, "<Provider"+zone+">")
			checkCapacity(&f, resources, zone)
			export := s.exports()["kafka-subnet-0000000"+strings.ToLower(zone)]
			f.check(export == "<Provider"+zone+">", "Subnet%s: exports %v", zone, export)
		}
		associated := fmt.Sprint(get(resources["Providers"], "Properties", "CapacityProviders"))
		f.check(associated == fmt.Sprint(providers), "the cluster has the capacity providers %s", associated)
		f.check(s.exports()["kafka-instances"] == "<Instances>", "the security group is not exported")
		f.check(get(resources["Cluster"], "Properties", "ClusterName") == "kafka", "Cluster: name")
	}
	checkZones(&f, parse(t, text))
	slices.Sort(f)
	return slices.Compact(f)
}

// checkInstanceTemplate checks the launch template.
func checkInstanceTemplate(f *faults, s *stack, p any) {
	image := imageParameter + "recommended/image_id"
	if s.parameters["Architecture"] == "ARM64" {
		image = imageParameter + "arm64/recommended/image_id"
	}
	f.check(get(p, "ImageId") == image, "image %v", get(p, "ImageId"))
	f.check(get(p, "MetadataOptions", "HttpTokens") == "required", "instances take IMDSv1")
	f.check(get(p, "MetadataOptions", "HttpPutResponseHopLimit") == "1", "the metadata's hop limit")
	f.check(get(p, "KeyName") == nil, "instances have an SSH key")
	interfaces := list(get(p, "NetworkInterfaces"))
	f.check(len(interfaces) == 1 && get(interfaces, 0, "AssociatePublicIpAddress") == "false", "instances have public addresses")
	f.check(fmt.Sprint(get(interfaces, 0, "Groups")) == "[<Instances>]", "instances have other security groups")
	disks := list(get(p, "BlockDeviceMappings"))
	f.check(len(disks) == 1 && get(disks, 0, "Ebs", "Encrypted") == "true", "the root volume is not encrypted")
	data, _ := get(p, "UserData").(string)
	f.check(strings.Contains(data, "\nECS_CLUSTER=<Cluster>\n"), "instances join another cluster")
	f.check(strings.Contains(data, "\nECS_AWSVPC_BLOCK_IMDS=true\n"), "tasks reach the instance's role")
}

// checkInstanceRights checks that instances have the rights of the container agent alone.
func checkInstanceRights(f *faults, resources map[string]object) {
	for name, r := range resources {
		p := r["Properties"]
		switch r["Type"] {
		case "AWS::IAM::Role":
			f.check(fmt.Sprint(get(p, "ManagedPolicyArns")) == "["+instancePolicy+"]", "%s: managed policies", name)
			f.check(get(p, "Policies") == nil, "%s: policies of its own", name)
			principal := get(p, "AssumeRolePolicyDocument", "Statement", 0, "Principal")
			f.check(reflect.DeepEqual(principal, object{"Service": "ec2.amazonaws.com"}), "%s: assumed by %v", name, principal)
		case "AWS::IAM::InstanceProfile":
			f.check(fmt.Sprint(get(p, "Roles")) == "[<InstanceRole>]", "%s: roles", name)
		case "AWS::IAM::Policy", "AWS::IAM::ManagedPolicy", "AWS::IAM::RolePolicy":
			f.check(false, "%s: a policy outside of its role", name)
		}
	}
}

// checkInstanceGroups checks the rules of the security groups: no connection to instances, and connections from them to port 443 alone.
func checkInstanceGroups(f *faults, s *stack, resources map[string]object) {
	want := []string{"Instances to tcp 443-443 0.0.0.0/0"}
	if s.parameters["InterfaceEndpoints"] == "true" {
		want = append(want, "EndpointGroup from tcp 443-443 <Instances>")
	}
	got := groupRulesOf(f, resources)
	slices.Sort(want)
	slices.Sort(got)
	f.check(slices.Equal(got, want), "rules of security groups %v", got)
}

// checkCapacity checks the Auto Scaling group and the capacity provider of a zone.
func checkCapacity(f *faults, resources map[string]object, zone string) {
	p := resources["Group"+zone]["Properties"]
	f.check(fmt.Sprint(get(p, "VPCZoneIdentifier")) == "[subnet-0000000"+strings.ToLower(zone)+"]", "Group%s: not of its zone", zone)
	f.check(get(p, "MinSize") == "0" && get(p, "DesiredCapacity") == nil, "Group%s: ECS does not set its size", zone)
	f.check(get(p, "MaxSize") == "20", "Group%s: MaxSize", zone)
	f.check(get(p, "NewInstancesProtectedFromScaleIn") == "true", "Group%s: ECS cannot protect instances", zone)
	f.check(attributes(p, "Tags")["AmazonECSManaged"] == "true", "Group%s: no tag AmazonECSManaged", zone)
	p = get(resources["Provider"+zone], "Properties", "AutoScalingGroupProvider")
	f.check(get(p, "AutoScalingGroupArn") == "<Group"+zone+">", "Provider%s: another group", zone)
	f.check(get(p, "ManagedScaling", "Status") == "ENABLED", "Provider%s: no managed scaling", zone)
	f.check(get(p, "ManagedScaling", "TargetCapacity") == "100", "Provider%s: target capacity", zone)
	f.check(get(p, "ManagedDraining") == "ENABLED", "Provider%s: no managed draining", zone)
	f.check(get(p, "ManagedTerminationProtection") == "ENABLED", "Provider%s: no managed termination protection", zone)
}

// TestEC2_KeepsItsRules checks ec2.yaml.
func TestEC2_KeepsItsRules(t *testing.T) { require.Empty(t, checkEC2(t, readFile(t, "ec2.yaml"))) }

// TestEC2_FindsFaults plants faults into copies of ec2.yaml. Each must be found.
func TestEC2_FindsFaults(t *testing.T) {
	text := readFile(t, "ec2.yaml")
	for _, tc := range []struct{ old, planted, want string }{
		{"HttpTokens: required", "HttpTokens: optional", "instances take IMDSv1"},
		{"HttpPutResponseHopLimit: 1", "HttpPutResponseHopLimit: 2", "hop limit"},
		{"AssociatePublicIpAddress: false", "AssociatePublicIpAddress: true", "public addresses"},
		{"Encrypted: true", "Encrypted: false", "the root volume is not encrypted"},
		{"        InstanceType: !Ref InstanceType\n", "        InstanceType: !Ref InstanceType\n        KeyName: operator\n", "SSH key"},
		{"Groups: [!Ref Instances]", "Groups: [sg-0000000f]", "other security groups"},
		{"[OnArm, arm64/, '']", "[OnArm, '', '']", "image resolve:ssm:"},
		{"ECS_CLUSTER=${Cluster}", "ECS_CLUSTER=default", "another cluster"},
		{"ECS_AWSVPC_BLOCK_IMDS=true", "ECS_AWSVPC_BLOCK_IMDS=false", "tasks reach the instance's role"},
		{"service-role/AmazonEC2ContainerServiceforEC2Role", "AmazonECS_FullAccess", "InstanceRole: managed policies"},
		{"forEC2Role']\n", "forEC2Role', !Sub 'arn:${AWS::Partition}:iam::aws:policy/AmazonSSMManagedInstanceCore']\n", "InstanceRole: managed policies"},
		{"forEC2Role']\n", "forEC2Role']\n      Policies: [{PolicyName: records, PolicyDocument: {}}]\n", "InstanceRole: policies of its own"},
		{"Service: ec2.amazonaws.com", "AWS: '*'", "InstanceRole: assumed by"},
		{"Roles: [!Ref InstanceRole]", "Roles: [Administrator]", "Profile: roles"},
		{"      SecurityGroupEgress:\n", "      SecurityGroupIngress: [{IpProtocol: tcp, FromPort: 22, ToPort: 22, CidrIp: 0.0.0.0/0}]\n      SecurityGroupEgress:\n", "Instances from tcp 22-22 0.0.0.0/0"},
		{"FromPort: 443, ToPort: 443, CidrIp", "FromPort: 0, ToPort: 65535, CidrIp", "Instances to tcp 0-65535 0.0.0.0/0"},
		{"[!Ref SubnetB]", "[!Ref SubnetB, !Ref SubnetA]", "GroupB: not of its zone"},
		{"      MinSize: '0'\n", "      MinSize: '0'\n      DesiredCapacity: '1'\n", "GroupA: ECS does not set its size"},
		{"MaxSize: !Ref MaxInstances", "MaxSize: '1'", "GroupA: MaxSize"},
		{"NewInstancesProtectedFromScaleIn: true", "NewInstancesProtectedFromScaleIn: false", "GroupC: ECS cannot protect"},
		{"Key: AmazonECSManaged", "Key: Managed", "GroupA: no tag AmazonECSManaged"},
		{"AutoScalingGroupArn: !Ref GroupB", "AutoScalingGroupArn: !Ref GroupA", "ProviderB: another group"},
		{"{Status: ENABLED", "{Status: DISABLED", "ProviderA: no managed scaling"},
		{"TargetCapacity: !Ref TargetCapacity", "TargetCapacity: 50", "ProviderA: target capacity"},
		{"ManagedDraining: ENABLED", "ManagedDraining: DISABLED", "ProviderC: no managed draining"},
		{"        ManagedDraining: ENABLED\n", "", "ProviderA: no managed draining"},
		{"ManagedTerminationProtection: ENABLED", "ManagedTerminationProtection: DISABLED", "ProviderA: no managed termination protection"},
		{", !If [HasC, !Ref ProviderC, !Ref 'AWS::NoValue']]\n      Default", "]\n      Default", "the cluster has the capacity providers [<ProviderA> <ProviderB>]"},
		{"Value: !Ref ProviderB", "Value: !Ref ProviderA", "SubnetB: exports <ProviderA>"},
		{"{Value: !Ref Instances, Export: {Name: !Sub '${ClusterName}-instances'}", "{Value: !Ref Instances", "the security group is not exported"},
		{"Name: !Sub 'freshet-${ClusterName}-${SubnetB}'", "Name: !Sub 'freshet-${ClusterName}-b'", "ProviderB differs from that of zone A"},
		{"    Condition: HasB\n    Properties:\n      MinSize", "    Condition: HasC\n    Properties:\n      MinSize", "GroupB: condition"},
	} {
		t.Run(tc.planted, func(t *testing.T) {
			require.Contains(t, text, tc.old)
			found := checkEC2(t, strings.ReplaceAll(text, tc.old, tc.planted))
			require.Contains(t, strings.Join(found, "\n"), tc.want)
		})
	}
}

// TestEC2_ParametersAreRefused: subnets differ, and sizes and the instance type are in their bounds.
func TestEC2_ParametersAreRefused(t *testing.T) {
	text := readFile(t, "ec2.yaml")
	require.Empty(t, instanceStack(t, text).refused())
	require.Empty(t, instanceStack(t, text, full).refused())
	for name, tc := range map[string]struct{ parameter, value, want string }{
		"one subnet twice":     {"SubnetB", "subnet-0000000a", "SubnetA differs from SubnetB and SubnetC"},
		"B and C are one":      {"SubnetC", "subnet-0000000b", "SubnetB differs from SubnetC"},
		"no instance type":     {"InstanceType", "", "InstanceType does not match"},
		"another architecture": {"Architecture", "arm64", "Architecture is not allowed"},
		"no cluster":           {"ClusterName", "", "ClusterName does not match"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, []string{tc.want}, instanceStack(t, text, full, map[string]string{tc.parameter: tc.value}).refused())
		})
	}
	root := parse(t, source(t))
	require.Equal(t, []string{"LaunchType is not allowed"}, with(t, root, map[string]string{"LaunchType": "EXTERNAL"}).refused())
}
