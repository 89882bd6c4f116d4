package ecs

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// provider and providerFull are parameters of provider.yaml with two replicas, and with everything.
var (
	provider = map[string]string{
		"SubnetB": "subnet-0000000b", "SubnetC": "", "PublicSubnetA": "subnet-000000aa", "PublicSubnetB": "subnet-000000bb", "Domain": "example.com",
		"CertSecretArn": secretArn("cp.crt"), "KeySecretArn": secretArn("cp.key"), "StateBucket": "state",
	}
	providerFull = map[string]string{
		"SubnetC": "subnet-0000000c", "PublicSubnetC": "subnet-000000cc", "HostedZoneId": "Z0123456789", "TenantCidr": "10.1.0.0/16", "OperatorCidr": "10.9.0.0/24",
		"CaSecretArn": secretArn("ca"), "ApiCertSecretArn": secretArn("api.crt"), "ApiKeySecretArn": secretArn("api.key"), "OperatorKeySecretArn": secretArn("operator"),
		"EcrRepositoryArn": "arn:aws:ecr:eu-1:123456789012:repository/freshet", "EtcdClientGroup": "sg-0000000e", "SignUp": "open",
		"SmtpUrlSecretArn": secretArn("smtp"), "SmtpPort": "587", "MailFrom": "Freshet <freshet@example.com>",
	}
)

// checkProvider returns the faults of provider.yaml.
func checkProvider(t *testing.T, text string) faults {
	t.Helper()
	var f faults
	f.check(len(text) < maxTemplate, "the template has %d bytes", len(text))
	root := parse(t, text)
	for i, s := range []*stack{with(t, root, provider), with(t, root, provider, providerFull, etcdSecrets)} {
		resources, replicas := s.resources(), []string{"A", "B", "C"}[:2+i]
		checkProviderGroups(t, &f, s, resources)
		for name, r := range resources {
			if r["Type"] == "AWS::IAM::Role" {
				checkRole(&f, name, r["Properties"])
			}
			if r["Type"] == "AWS::ECS::TaskDefinition" {
				checkReplicaTask(t, &f, s, name, r["Properties"])
			}
		}
		services := 0
		for _, r := range resources {
			if r["Type"] == "AWS::ECS::Service" {
				services++
			}
		}
		f.check(services == len(replicas), "%d services of %d replicas", services, len(replicas))
		checkBalancer(&f, s, resources, "", "8443", "api.example.com", "true")
		for n, letter := range replicas {
			checkReplica(&f, s, resources, letter)
			before, waits := "", list(resources["Service"+letter]["DependsOn"])
			if n > 0 {
				before = "Service" + replicas[n-1]
			}
			f.check(before == "" || slices.Contains(waits, any(before)), "Service%s: changes beside another replica", letter)
			f.check(slices.Contains(waits, any("Listener")) && slices.Contains(waits, any("Listener"+letter)), "Service%s does not wait for its listeners", letter)
		}
	}
	checkReplicasAreAlike(&f, root)
	slices.Sort(f)
	return slices.Compact(f)
}

// checkReplica checks one replica: its names, its service, and its load balancer.
func checkReplica(f *faults, s *stack, resources map[string]object, letter string) {
	name := "cp-" + strings.ToLower(letter)
	settings := attributes(object{"Of": get(resources["Task"+letter], "Properties", "ContainerDefinitions", 0, "Environment")}, "Of")
	f.check(settings["FRESHET_REPLICA_ID"] == name, "Task%s: replica ID", letter)
	f.check(settings["FRESHET_ADVERTISE"] == name+".freshet.internal:7050", "Task%s: address for replicas", letter)
	f.check(settings["FRESHET_PUBLIC_ADDRESS"] == name+".example.com:443", "Task%s: address for agents", letter)
	f.check(get(resources["Name"+letter], "Properties", "Name") == name, "Name%s: not the advertised name", letter)
	p := resources["Service"+letter]["Properties"]
	f.check(get(p, "DesiredCount") == "1", "Service%s: two tasks would have one name", letter)
	d := get(p, "DeploymentConfiguration")
	f.check(get(d, "MinimumHealthyPercent") == "0" && get(d, "MaximumPercent") == "100", "Service%s: a roll-out runs two tasks of one name", letter)
	f.check(get(d, "DeploymentCircuitBreaker", "Enable") == "true" && get(d, "DeploymentCircuitBreaker", "Rollback") == "true", "Service%s: no rollback", letter)
	f.check(fmt.Sprint(get(p, "ServiceRegistries")) == "[map[RegistryArn:<Name"+letter+".Arn>]]", "Service%s: registry", letter)
	f.check(fmt.Sprint(get(p, "NetworkConfiguration", "AwsvpcConfiguration", "Subnets")) == "["+s.parameters["Subnet"+letter]+"]", "Service%s: subnet", letter)
	f.check(reflect.DeepEqual(get(p, "LoadBalancers"), []any{
		object{"ContainerName": "controlplane", "ContainerPort": "7050", "TargetGroupArn": "<Targets" + letter + ">"},
		object{"ContainerName": "controlplane", "ContainerPort": "8443", "TargetGroupArn": "<Targets>"},
	}), "Service%s: target groups", letter)
	checkBalancer(f, s, resources, letter, "7050", name+".example.com", "false")
	f.check(fmt.Sprint(get(resources["Balancer"+letter], "Properties", "Subnets")) == "["+s.parameters["PublicSubnet"+letter]+"]", "Balancer%s: subnet", letter)
}

// checkBalancer checks a load balancer with its listener, its target group and its record.
func checkBalancer(f *faults, s *stack, resources map[string]object, letter, port, name, crosses string) {
	p := resources["Balancer"+letter]["Properties"]
	f.check(get(p, "Type") == "network" && get(p, "Scheme") == "internet-facing", "Balancer%s: not a public Network Load Balancer", letter)
	f.check(attributes(p, "LoadBalancerAttributes")["load_balancing.cross_zone.enabled"] == crosses, "Balancer%s: zones", letter)
	l := resources["Listener"+letter]["Properties"]
	f.check(get(l, "Port") == "443" && get(l, "Protocol") == "TCP", "Listener%s: TLS must pass through", letter)
	f.check(get(l, "LoadBalancerArn") == "<Balancer"+letter+">" && get(l, "DefaultActions", 0, "TargetGroupArn") == "<Targets"+letter+">", "Listener%s: other targets", letter)
	g := resources["Targets"+letter]["Properties"]
	f.check(get(g, "Port") == port && get(g, "Protocol") == "TCP", "Targets%s: port", letter)
	f.check(get(g, "HealthCheckPath") == "/livez" && get(g, "HealthCheckPort") == "8090", "Targets%s: health check", letter)
	f.check(attributes(g, "TargetGroupAttributes")["preserve_client_ip.enabled"] == "true", "Targets%s: pauses of logins would be those of the load balancer's address", letter)
	r, ok := resources["Record"+letter]
	f.check(ok == (s.parameters["HostedZoneId"] != ""), "Record%s: condition", letter)
	f.check(!ok || get(r, "Properties", "Name") == name && get(r, "Properties", "AliasTarget", "DNSName") == "<Balancer"+letter+".DNSName>", "Record%s: name", letter)
}

// checkReplicaTask compares the task of a replica with the flags of the program, with the provider of the chart, and with the control planes of cloudformation.yaml.
func checkReplicaTask(t *testing.T, f *faults, s *stack, name string, p any) {
	t.Helper()
	c, flags := get(p, "ContainerDefinitions", 0), settings(t, "controlplane")
	values, given := attributes(object{"Of": get(c, "Environment")}, "Of"), map[string]bool{}
	for _, secret := range list(get(c, "Secrets")) {
		variable, _ := get(secret, "Name").(string)
		f.check(values[variable] == nil, "%s: %s twice", name, variable)
		values[variable] = get(secret, "ValueFrom")
	}
	for variable := range values {
		flag := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(variable, "FRESHET_"), "_", "-"))
		f.check(flags[flag] != "", "%s: freshet controlplane has no setting %s", name, variable)
		given[flag] = true
	}
	_, chart, _ := strings.Cut(readFile(t, "../helm/freshet/templates/controlplane.yaml"), "            {{- if $provider }}\n")
	chart, _, _ = strings.Cut(chart, "            {{- else }}\n")
	inChart := regexp.MustCompile(`--([a-z-]+)=`).FindAllStringSubmatch(chart, -1)
	require.Len(t, inChart, 5)
	for _, m := range inChart {
		f.check(given[m[1]], "%s: the chart sets --%s", name, m[1])
	}
	for _, flag := range []string{"virtual-cluster", "bucket", "agent-key"} {
		f.check(!given[flag], "%s: --%s is of tenants", name, flag)
	}
	f.check(values["FRESHET_PUBLIC_LISTEN"] == ":8443", "%s: port of the HTTP API", name)
	f.check(values["FRESHET_SIGNUP"] == s.parameters["SignUp"], "%s: sign-up", name)
	api := "cp"
	if s.parameters["ApiCertSecretArn"] != "" {
		api = "api"
	}
	for variable, secret := range map[string]string{"TLS_CERT": "cp.crt", "TLS_KEY": "cp.key", "PUBLIC_TLS_CERT": api + ".crt", "PUBLIC_TLS_KEY": api + ".key"} {
		f.check(values["FRESHET_"+variable] == secretArn(secret), "%s: FRESHET_%s is %v", name, variable, values["FRESHET_"+variable])
	}
	want := []any{nil, nil, nil}
	if s.parameters["MailFrom"] != "" {
		want = []any{s.parameters["SmtpUrlSecretArn"], s.parameters["MailFrom"], "https://api.example.com"}
	}
	got := []any{values["FRESHET_SMTP_URL"], values["FRESHET_MAIL_FROM"], values["FRESHET_PUBLIC_URL"]}
	f.check(reflect.DeepEqual(got, want), "%s: mails: %v", name, got)
	f.check((values["FRESHET_TLS_REPLICA_CA"] != nil) == (s.parameters["CaSecretArn"] != ""), "%s: authority", name)
	for _, e := range list(get(c, "Environment")) {
		f.check(!regexp.MustCompile(`(KEY|SMTP_URL)$`).MatchString(get(e, "Name").(string)), "%s: %v in plain text", name, get(e, "Name"))
	}
	other := get(with(t, parse(t, source(t))).resources()["ControlPlaneTask"], "Properties", "ContainerDefinitions", 0)
	for _, property := range []string{"Command", "HealthCheck", "StopTimeout", "Ulimits", "ReadonlyRootFilesystem", "LinuxParameters"} {
		f.check(reflect.DeepEqual(get(c, property), get(other, property)), "%s: %s is not that of cloudformation.yaml", name, property)
	}
}

// checkProviderGroups compares the rules of the security groups with the ports of the program.
func checkProviderGroups(t *testing.T, f *faults, s *stack, resources map[string]object) {
	t.Helper()
	grpc, http := ports(t, "controlplane", "grpc-listen")[0], ports(t, "controlplane", "http-listen")[0]
	rule := func(group, direction, port, other string) string {
		return fmt.Sprintf("%s %s tcp %s-%s %s", group, direction, port, port, other)
	}
	want := []string{
		rule("ControlPlanes", "to", "443", "0.0.0.0/0"), rule("ControlPlanes", "to", "2379", "0.0.0.0/0"),
		rule("ControlPlaneRules", "from", grpc, "<ControlPlanes>"), rule("ControlPlaneRules", "to", grpc, "<ControlPlanes>"),
		rule("BalancerGroup", "from", "443", s.parameters["TenantCidr"]),
	}
	for _, port := range []string{grpc, "8443", http} {
		want = append(want, rule("ControlPlaneRules", "from", port, "<BalancerGroup>"), rule("BalancerGroup", "to", port, "<ControlPlanes>"))
	}
	if operators := s.parameters["OperatorCidr"]; operators != "" {
		want = append(want, rule("ControlPlaneRules", "from", http, operators))
	}
	if s.parameters["MailFrom"] != "" {
		want = append(want, rule("ControlPlanes", "to", s.parameters["SmtpPort"], "0.0.0.0/0"))
	}
	got := groupRulesOf(f, resources)
	for _, r := range got {
		f.check(slices.Contains(want, r), "open: %s", r)
	}
	for _, r := range want {
		f.check(slices.Contains(got, r), "closed: %s", r)
	}
}

// checkReplicasAreAlike compares the resources of replicas b and c with those of a.
func checkReplicasAreAlike(f *faults, root object) {
	resources := root["Resources"].(object)
	of := regexp.MustCompile(`^(Name|Task|Service|Balancer|Targets|Listener|Record)A$`)
	for name, r := range resources {
		m := of.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		for _, letter := range []string{"B", "C"} {
			other := resources[m[1]+letter]
			f.check(reflect.DeepEqual(renameReplica(get(r, "Properties"), "A", letter), get(other, "Properties")), "%s%s differs from that of replica a", m[1], letter)
			want := map[string]any{"B": get(r, "Condition"), "C": "HasC"}[letter]
			if letter == "C" && m[1] == "Record" {
				want = "HasZoneAndC"
			}
			f.check(get(other, "Condition") == want, "%s%s: condition", m[1], letter)
		}
	}
}

// renameReplica returns a value with the letter of a replica replaced.
func renameReplica(value any, from, to string) any {
	switch v := value.(type) {
	case []any:
		l := []any{}
		for _, e := range v {
			l = append(l, renameReplica(e, from, to))
		}
		return l
	case object:
		o := object{}
		for k, e := range v {
			o[k] = renameReplica(e, from, to)
		}
		return o
	case string:
		v = strings.ReplaceAll(v, "cp-"+strings.ToLower(from), "cp-"+strings.ToLower(to))
		return regexp.MustCompile(`\b(PublicSubnet|Subnet|Name|Task|Balancer|Targets)`+from+`\b`).ReplaceAllString(v, "${1}"+to)
	}
	return value
}

// TestProvider_KeepsItsRules checks provider.yaml.
func TestProvider_KeepsItsRules(t *testing.T) {
	text := readFile(t, "provider.yaml")
	require.Empty(t, checkProvider(t, text))
	root := parse(t, text)
	require.Empty(t, with(t, root, provider).refused())
	all := with(t, root, provider, providerFull, etcdSecrets)
	require.Empty(t, all.refused())
	require.Equal(t, "cp-a.example.com:443,cp-b.example.com:443,cp-c.example.com:443", all.eval(get(root, "Outputs", "ControlPlanes", "Value")))
	require.Equal(t, "api.example.com=<Balancer.DNSName> cp-a.example.com=<BalancerA.DNSName> cp-b.example.com=<BalancerB.DNSName>",
		with(t, root, provider).eval(get(root, "Outputs", "Records", "Value")))
	for role, want := range map[string]int{"ExecutionRole": 10, "ControlPlaneRole": 0} {
		readable := 0
		for _, e := range list(get(all.resources()[role], "Properties", "Policies", 0, "PolicyDocument", "Statement")) {
			if get(e, "Action") == "secretsmanager:GetSecretValue" {
				readable += len(list(get(e, "Resource")))
			}
		}
		require.Equal(t, want, readable, role)
	}
}

// TestProvider_FindsFaults plants faults into copies of provider.yaml. Each must be found.
func TestProvider_FindsFaults(t *testing.T) {
	text := readFile(t, "provider.yaml")
	for _, tc := range []struct{ old, planted, want string }{
		{"'cp-b.${Domain}:443'}", "'cp-a.${Domain}:443'}", "TaskB: address for agents"},
		{"FRESHET_REPLICA_ID, Value: cp-b", "FRESHET_REPLICA_ID, Value: cp-a", "TaskB: replica ID"},
		{"cp-c.${Namespace}:7050", "cp-c.${Domain}:7050", "TaskC: address for replicas"},
		{"DesiredCount: 1", "DesiredCount: 2", "ServiceA: two tasks"},
		{"MinimumHealthyPercent: 0, MaximumPercent: 100", "MinimumHealthyPercent: 100, MaximumPercent: 200", "ServiceC: a roll-out"},
		{"Rollback: true", "Rollback: false", "ServiceB: no rollback"},
		{"[Listener, ListenerB, ServiceA]", "[Listener, ListenerB]", "ServiceB: changes beside"},
		{"[Listener, ListenerC, ServiceB]", "[Listener, ServiceB]", "ServiceC does not wait"},
		{"Protocol: TCP, Port: 443", "Protocol: TLS, Port: 443", "ListenerA: TLS must pass"},
		{"TargetGroupArn: !Ref TargetsB}]}", "TargetGroupArn: !Ref TargetsA}]}", "ListenerB: other targets"},
		{"{ContainerName: controlplane, ContainerPort: 8443, TargetGroupArn: !Ref Targets}", "{ContainerName: controlplane, ContainerPort: 8443, TargetGroupArn: !Ref TargetsA}", "ServiceA: target groups"},
		{"HealthCheckPath: /livez", "HealthCheckPath: /readyz", "Targets: health check"},
		{"8090/startedz", "8090/readyz", "TaskB: HealthCheck is not that of cloudformation.yaml"},
		{"preserve_client_ip.enabled, Value: 'true'", "preserve_client_ip.enabled, Value: 'false'", "Targets: pauses of logins"},
		{"Subnets: [!Ref PublicSubnetB]", "Subnets: [!Ref PublicSubnetA]", "BalancerB: subnet"},
		{"!GetAtt BalancerC.DNSName", "!GetAtt BalancerB.DNSName", "RecordC: name"},
		{"    Condition: HasZoneAndC\n", "    Condition: HasC\n", "RecordC: condition"},
		{"        - {Name: FRESHET_PUBLIC_LISTEN, Value: ':8443'}\n", "", "TaskA: the chart sets --public-listen"},
		{"FRESHET_STATE_BUCKET", "FRESHET_BUCKET", "TaskA: --bucket is of tenants"},
		{"!If [HasApiCert, !Ref ApiKeySecretArn, !Ref KeySecretArn]}", "!Ref KeySecretArn}", "TaskA: FRESHET_PUBLIC_TLS_KEY is"},
		{"{Name: FRESHET_LOG_FORMAT, Value: json}", "{Name: FRESHET_AGENT_KEY, Value: k}", "TaskB: FRESHET_AGENT_KEY in plain text"},
		{"{Name: FRESHET_LOG_FORMAT, Value: json}", "{Name: FRESHET_SMTP_URL, Value: u}", "TaskB: FRESHET_SMTP_URL in plain text"},
		{"ValueFrom: !Ref SmtpUrlSecretArn", "ValueFrom: !Ref KeySecretArn", "TaskA: mails"},
		{"'https://api.${Domain}'}, !Ref", "'https://cp-a.${Domain}'}, !Ref", "TaskA: mails"},
		{"FromPort: !Ref SmtpPort, ToPort: !Ref SmtpPort", "FromPort: 465, ToPort: 465", "closed: ControlPlanes to tcp 587-587 0.0.0.0/0"},
		{"FRESHET_TLS_REPLICA_CA", "FRESHET_TLS_REPLICAS", "TaskA: freshet controlplane has no setting FRESHET_TLS_REPLICAS"},
		{"StopTimeout: 30", "StopTimeout: 5", "TaskA: StopTimeout is not that"},
		{"FromPort: 8090, ToPort: 8090, CidrIp: !Ref OperatorCidr", "FromPort: 8090, ToPort: 8090, CidrIp: 0.0.0.0/0", "open: ControlPlaneRules from tcp 8090-8090 0.0.0.0/0"},
		{"FromPort: 7050, ToPort: 7050, SourceSecurityGroupId: !Ref BalancerGroup", "FromPort: 7050, ToPort: 7050, CidrIp: 10.0.0.0/8", "closed: ControlPlaneRules from tcp 7050-7050 <BalancerGroup>"},
		{"${StateBucket}/${Prefix}/*'", "${StateBucket}/*'", "ControlPlaneRole: s3:GetObject beyond the prefix"},
	} {
		t.Run(tc.want, func(t *testing.T) {
			require.Contains(t, text, tc.old)
			require.Contains(t, strings.Join(checkProvider(t, strings.ReplaceAll(text, tc.old, tc.planted)), "\n"), tc.want)
		})
	}
}

// TestProvider_Refuses: CloudFormation refuses parameters that cannot work.
func TestProvider_Refuses(t *testing.T) {
	root := parse(t, readFile(t, "provider.yaml"))
	for name, tc := range map[string]struct {
		parameters map[string]string
		want       string
	}{
		"one subnet twice":         {map[string]string{"SubnetB": required["SubnetA"]}, "A and B must be two zones with two subnets each"},
		"one public subnet twice":  {map[string]string{"PublicSubnetC": provider["PublicSubnetB"]}, "B and C must be two zones with two subnets each"},
		"c without public subnet":  {map[string]string{"PublicSubnetC": ""}, "SubnetC and PublicSubnetC belong together"},
		"a certificate alone":      {map[string]string{"ApiKeySecretArn": ""}, "ApiCertSecretArn and ApiKeySecretArn belong together"},
		"a mail server alone":      {map[string]string{"MailFrom": ""}, "SmtpUrlSecretArn and MailFrom belong together"},
		"no certificate":           {map[string]string{"CertSecretArn": ""}, "CertSecretArn does not match"},
		"no domain":                {map[string]string{"Domain": ""}, "Domain does not match"},
		"no state bucket":          {map[string]string{"StateBucket": ""}, "StateBucket does not match"},
		"another kind of sign-up":  {map[string]string{"SignUp": "everyone"}, "SignUp is not allowed"},
		"etcd's certificate alone": {map[string]string{"EtcdCertSecretArn": secretArn("client.crt")}, "EtcdCertSecretArn and EtcdKeySecretArn belong together"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, []string{tc.want}, with(t, root, provider, providerFull, tc.parameters).refused())
		})
	}
}
