package ecs

import (
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/server/v3/embed"
)

// etcdOne and etcdThree are parameters of a cluster with one member, and with three.
var (
	etcdOne = map[string]string{
		"Vpc": "vpc-0a", "SubnetA": "subnet-0000000a", "ZoneA": "eu-1a", "SubnetB": "", "ZoneB": "", "SubnetC": "", "ZoneC": "", "ImageId": "ami-0000000a",
		"EtcdUrl": "https://example.com/etcd.tar.gz", "EtcdSha256": strings.Repeat("0a", 32), "AWS::StackId": "arn:aws:cloudformation:eu-1:1:stack/kafka/1",
	}
	etcdThree = map[string]string{"SubnetB": "subnet-0000000b", "ZoneB": "eu-1b", "SubnetC": "subnet-0000000c", "ZoneC": "eu-1c"}
)

// etcdStacks returns a cluster with one member and one with three.
func etcdStacks(t *testing.T, text string) []*stack {
	t.Helper()
	root := withoutBase64(parse(t, text)).(object)
	return []*stack{with(t, root, etcdOne), with(t, root, etcdOne, etcdThree)}
}

// withoutBase64 returns a value with the argument of each Fn::Base64 in place of the function.
func withoutBase64(value any) any {
	switch v := value.(type) {
	case []any:
		for i, e := range v {
			v[i] = withoutBase64(e)
		}
	case object:
		if argument, ok := v["Fn::Base64"]; ok {
			return withoutBase64(argument)
		}
		for k, e := range v {
			v[k] = withoutBase64(e)
		}
	}
	return value
}

// readFile returns the text of a file.
func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// checkEtcd returns the faults of etcd.yaml.
func checkEtcd(t *testing.T, text string) faults {
	t.Helper()
	var f faults
	f.check(len(text) < maxTemplate, "the template has %d bytes", len(text))
	f.check(get(parse(t, text), "Parameters", "EtcdSha256", "AllowedPattern") == "^[0-9a-f]{64}$" &&
		get(parse(t, text), "Parameters", "EtcdSha256", "Default") == nil, "EtcdSha256: the checksum is optional")
	for i, s := range etcdStacks(t, text) {
		resources := s.resources()
		members := []string{"A", "B", "C"}[:1+2*i]
		checkEtcdGroups(&f, resources)
		checkInstances(t, &f, get(resources["Template"], "Properties", "LaunchTemplateData"), len(members))
		checkEtcdRole(&f, resources, members)
		for name, r := range resources {
			f.check(r["Type"] != "AWS::EC2::Instance" && r["Type"] != "AWS::EC2::VolumeAttachment", "%s: a replaced instance has no volume", name)
			f.check(r["Type"] != "AWS::EC2::KeyPair", "%s: SSH", name)
		}
		for n, member := range members {
			checkMember(&f, resources, member)
			after := get(resources["Group"+member], "DependsOn", 1)
			f.check(n == 0 || after == "Group"+members[n-1], "Group%s: changes beside another member", member)
		}
	}
	slices.Sort(f)
	return slices.Compact(f)
}

// checkEtcdGroups compares the rules of the security groups with ports 2379 and 2380.
func checkEtcdGroups(f *faults, resources map[string]object) {
	want := []string{
		"Clients to tcp 2379-2379 <Members>", "Members to tcp 443-443 0.0.0.0/0",
		"MemberRules from tcp 2379-2379 <Clients>", "MemberRules from tcp 2379-2379 <Members>", "MemberRules from tcp 2380-2380 <Members>",
		"MemberRules to tcp 2379-2379 <Members>", "MemberRules to tcp 2380-2380 <Members>",
	}
	got := groupRulesOf(f, resources)
	for _, r := range got {
		f.check(slices.Contains(want, r), "open: %s", r)
	}
	for _, r := range want {
		f.check(slices.Contains(got, r), "closed: %s", r)
	}
}

// groupRulesOf returns the rules of all security groups, as "Clients to tcp 2379-2379 <Members>".
func groupRulesOf(f *faults, resources map[string]object) []string {
	var got []string
	for name, r := range resources {
		kind := r["Type"].(string)
		f.check(!strings.HasPrefix(kind, "AWS::EC2::SecurityGroup") || kind == "AWS::EC2::SecurityGroup", "%s: a rule outside of its group", name)
		for direction, key := range map[string]string{"from": "SecurityGroupIngress", "to": "SecurityGroupEgress"} {
			for _, e := range list(get(r, "Properties", key)) {
				other := ""
				for _, k := range []string{"CidrIp", "CidrIpv6", "SourceSecurityGroupId", "DestinationSecurityGroupId"} {
					if v, ok := get(e, k).(string); ok {
						other += v
					}
				}
				got = append(got, fmt.Sprintf("%s %s %v %v-%v %s", name, direction, get(e, "IpProtocol"), get(e, "FromPort"), get(e, "ToPort"), other))
			}
		}
	}
	return got
}

// checkInstances checks the launch template, whose user data must write the unit of deploy/systemd.
func checkInstances(t *testing.T, f *faults, p any, members int) {
	t.Helper()
	f.check(get(p, "MetadataOptions", "HttpTokens") == "required", "instances take IMDSv1")
	f.check(get(p, "MetadataOptions", "HttpPutResponseHopLimit") == "1", "the metadata's hop limit")
	f.check(get(p, "MetadataOptions", "InstanceMetadataTags") == "enabled", "instances cannot read their tags")
	f.check(get(p, "KeyName") == nil, "instances have an SSH key")
	for _, d := range list(get(p, "BlockDeviceMappings")) {
		f.check(get(d, "Ebs", "Encrypted") == "true", "the root volume is not encrypted")
	}
	data, _ := get(p, "UserData").(string)
	const maxUserData = 16 << 10
	f.check(len(data) < maxUserData, "user data has %d bytes", len(data))
	_, unit, _ := strings.Cut(data, "/etc/systemd/system/etcd.service <<'UNIT'\n")
	unit, _, _ = strings.Cut(unit, "UNIT\n")
	f.check(unit == readFile(t, "../systemd/etcd.service"), "the unit is not deploy/systemd/etcd.service")
	download, check, unpack := strings.Index(data, "curl -fsSL"), strings.Index(data, `echo "`+strings.Repeat("0a", 32)+`  $work/etcd.tar.gz" | sha256sum --check --strict`),
		strings.Index(data, "tar -xzf")
	f.check(strings.HasPrefix(data, "#!/bin/bash\nset -euo pipefail\n") && 0 < download && download < check && check < unpack, "the archive is unpacked without its checksum")
	f.check(!strings.Contains(data, "mkfs.xfs -f"), "a volume with data is formatted")
	want := "ETCD_INITIAL_CLUSTER=a=https://a.freshet-etcd.internal:2380\n"
	if members == 3 {
		want = "ETCD_INITIAL_CLUSTER=a=https://a.freshet-etcd.internal:2380,b=https://b.freshet-etcd.internal:2380,c=https://c.freshet-etcd.internal:2380\n"
	}
	f.check(strings.Contains(data, want), "the initial cluster")
	// etcd refuses a setting that is both a flag and in the environment.
	for _, m := range regexp.MustCompile(`(?m)^ETCD_([A-Z_]+)=`).FindAllStringSubmatch(data, -1) {
		f.check(!strings.Contains(unit, " --"+strings.ToLower(strings.ReplaceAll(m[1], "_", "-"))+"="), "ETCD_%s: also a flag", m[1])
	}
}

// checkEtcdRole checks that instances have no right beyond their stack, their secrets and Session Manager.
func checkEtcdRole(f *faults, resources map[string]object, members []string) {
	p := resources["Role"]["Properties"]
	f.check(fmt.Sprint(get(p, "ManagedPolicyArns")) == "[arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore]", "Role: managed policies")
	var volumes, interfaces []string
	for _, m := range members {
		volumes, interfaces = append(volumes, "arn:aws:ec2:eu-1:1:volume/<Volume"+m+">"), append(interfaces, "arn:aws:ec2:eu-1:1:network-interface/<Interface"+m+">")
	}
	secret := "arn:aws:secretsmanager:eu-1:1:secret:freshet-etcd/"
	want := []string{
		fmt.Sprint("secretsmanager:GetSecretValue ", []string{secret + "ca.crt-??????", secret + "?.crt-??????", secret + "?.key-??????"}),
		"[ec2:AttachVolume ec2:AttachNetworkInterface] arn:aws:ec2:eu-1:1:instance/*",
		fmt.Sprint("ec2:AttachVolume ", volumes), fmt.Sprint("ec2:AttachNetworkInterface ", interfaces),
		"cloudformation:SignalResource " + etcdOne["AWS::StackId"],
	}
	var got []string
	for _, s := range list(get(p, "Policies", 0, "PolicyDocument", "Statement")) {
		got = append(got, fmt.Sprint(get(s, "Action"), " ", get(s, "Resource")))
		f.check(!strings.HasSuffix(got[len(got)-1], "*") || get(s, "Condition", "StringEquals", "aws:ResourceTag/etcd-stack") == "kafka", "Role: instances of other stacks")
	}
	f.check(slices.Equal(want, got), "Role: %v", got)
}

// checkMember checks the volume, the name and the group of a member.
func checkMember(f *faults, resources map[string]object, member string) {
	volume, group := resources["Volume"+member], resources["Group"+member]
	p := volume["Properties"]
	f.check(get(p, "Encrypted") == "true", "Volume%s: not encrypted", member)
	f.check(get(p, "VolumeType") == "gp3", "Volume%s: not gp3", member)
	f.check(get(p, "AvailabilityZone") == "eu-1"+strings.ToLower(member), "Volume%s: zone", member)
	f.check(volume["DeletionPolicy"] == "Retain" && volume["UpdateReplacePolicy"] == "Retain", "Volume%s: goes with the stack", member)
	name := resources["Name"+member]["Properties"]
	f.check(get(name, "Name") == strings.ToLower(member)+".freshet-etcd.internal" &&
		get(name, "ResourceRecords", 0) == "<Interface"+member+".PrimaryPrivateIpAddress>", "Name%s: not of the member's interface", member)
	p = group["Properties"]
	f.check(get(p, "MinSize") == "1" && get(p, "MaxSize") == "1", "Group%s: not one instance", member)
	f.check(fmt.Sprint(get(p, "VPCZoneIdentifier")) == "[subnet-0000000"+strings.ToLower(member)+"]", "Group%s: subnet", member)
	update := get(group, "UpdatePolicy", "AutoScalingRollingUpdate")
	f.check(get(update, "MinInstancesInService") == "0" && get(update, "WaitOnResourceSignals") == "true", "Group%s: the next member does not wait", member)
	tags := attributes(p, "Tags")
	want := object{
		"Name": "kafka-" + strings.ToLower(member), "etcd-stack": "kafka", "etcd-member": strings.ToLower(member),
		"etcd-volume": "<Volume" + member + ">", "etcd-interface": "<Interface" + member + ">", "etcd-group": "Group" + member,
	}
	f.check(maps.Equal(tags, want), "Group%s: tags %v", member, tags)
}

// TestEtcd_KeepsItsRules checks etcd.yaml.
func TestEtcd_KeepsItsRules(t *testing.T) { require.Empty(t, checkEtcd(t, readFile(t, "etcd.yaml"))) }

// TestEtcd_FindsFaults plants faults into copies of etcd.yaml. Each must be found.
func TestEtcd_FindsFaults(t *testing.T) {
	text := readFile(t, "etcd.yaml")
	for _, tc := range []struct{ old, planted, want string }{
		{"HttpTokens: required", "HttpTokens: optional", "instances take IMDSv1"},
		{"HttpPutResponseHopLimit: 1", "HttpPutResponseHopLimit: 2", "hop limit"},
		{"InstanceMetadataTags: enabled", "InstanceMetadataTags: disabled", "cannot read their tags"},
		{"ImageId: !Ref ImageId\n", "ImageId: !Ref ImageId\n        KeyName: operator\n", "SSH key"},
		{"VolumeSize: 8, Encrypted: true", "VolumeSize: 8, Encrypted: false", "the root volume is not encrypted"},
		{"      Encrypted: true\n", "      Encrypted: false\n", "VolumeB: not encrypted"},
		{"VolumeType: gp3\n", "VolumeType: gp2\n", "VolumeC: not gp3"},
		{"    DeletionPolicy: Retain\n", "", "VolumeA: goes with the stack"},
		{"AvailabilityZone: !Ref ZoneB", "AvailabilityZone: !Ref ZoneA", "VolumeB: zone"},
		{"{IpProtocol: tcp, FromPort: 2380, ToPort: 2380, SourceSecurityGroupId: !Ref Members", "{IpProtocol: tcp, FromPort: 2379, ToPort: 2381, SourceSecurityGroupId: !Ref Members", "closed: MemberRules from tcp 2380-2380 <Members>"},
		{"SourceSecurityGroupId: !Ref Clients", "CidrIp: 10.0.0.0/8", "open: MemberRules from tcp 2379-2379 10.0.0.0/8"},
		{"--client-cert-auth=true", "--client-cert-auth=false", "the unit is not"},
		{"--quota-backend-bytes=6442450944", "--quota-backend-bytes=2147483648", "the unit is not"},
		{" | sha256sum --check --strict", "", "without its checksum"},
		{"AllowedPattern: '^[0-9a-f]{64}$'", "Default: '', AllowedPattern: '^([0-9a-f]{64})?$'", "the checksum is optional"},
		{"mkfs.xfs \"$disk\"", "mkfs.xfs -f \"$disk\"", "is formatted"},
		{"ETCD_NAME=$member", "ETCD_DATA_DIR=/var/lib/etcd", "ETCD_DATA_DIR: also a flag"},
		{",c=https://c.${Domain}:2380", "", "the initial cluster"},
		{"WaitOnResourceSignals: true, ", "", "GroupA: the next member does not wait"},
		{"DependsOn: [NameC, GroupB]", "DependsOn: [NameC, GroupA]", "GroupC: changes beside another member"},
		{"MaxSize: '1'", "MaxSize: '2'", "GroupA: not one instance"},
		{"Key: etcd-volume, Value: !Ref VolumeB", "Key: etcd-volume, Value: !Ref VolumeA", "GroupB: tags"},
		{"[!GetAtt InterfaceC.PrimaryPrivateIpAddress]", "[!GetAtt InterfaceA.PrimaryPrivateIpAddress]", "NameC: not of"},
		{":instance/*'\n                Condition: {StringEquals: {'aws:ResourceTag/etcd-stack': !Ref 'AWS::StackName'}}\n", ":instance/*'\n", "instances of other stacks"},
		{"${SecretPrefix}/ca.crt-??????", "*", "Role: "},
		{"AmazonSSMManagedInstanceCore", "AdministratorAccess", "managed policies"},
	} {
		t.Run(tc.planted, func(t *testing.T) {
			require.Contains(t, text, tc.old)
			found := checkEtcd(t, strings.ReplaceAll(text, tc.old, tc.planted))
			require.Contains(t, strings.Join(found, "\n"), tc.want)
		})
	}
}

// TestEtcd_ParametersAreRefused: one or three members have a subnet and a zone each, and the archive has an address and a checksum.
func TestEtcd_ParametersAreRefused(t *testing.T) {
	root := parse(t, readFile(t, "etcd.yaml"))
	for _, parameters := range []map[string]string{{}, etcdThree} {
		require.Empty(t, with(t, root, etcdOne, parameters).refused())
	}
	belong := "SubnetB, ZoneB, SubnetC and ZoneC belong together"
	for name, tc := range map[string]struct{ parameter, value, want string }{
		"two members":           {"SubnetC", "", belong},
		"a member without zone": {"ZoneB", "", belong},
		"no checksum":           {"EtcdSha256", "", "EtcdSha256 does not match"},
		"a short checksum":      {"EtcdSha256", "0a", "EtcdSha256 does not match"},
		"no TLS":                {"EtcdUrl", "http://example.com/etcd.tar.gz", "EtcdUrl does not match"},
		"a quote":               {"EtcdUrl", "https://example.com/'$(id)'", "EtcdUrl does not match"},
		"a domain of one label": {"Domain", "etcd", "Domain does not match"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, []string{tc.want}, with(t, root, etcdOne, etcdThree, map[string]string{tc.parameter: tc.value}).refused())
		})
	}
}

// unitFlags returns the flags of etcd in the unit.
func unitFlags(t *testing.T) map[string]string {
	t.Helper()
	flags := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^    --([a-z-]+)=(\S+)`).FindAllStringSubmatch(readFile(t, "../systemd/etcd.service"), -1) {
		flags[m[1]] = m[2]
	}
	require.NotEmpty(t, flags)
	return flags
}

// TestUnit_OfEtcd: etcd has each flag of the unit and takes its value, and TLS and sizes are those of the Helm chart.
func TestUnit_OfEtcd(t *testing.T) {
	known := flag.NewFlagSet("etcd", flag.ContinueOnError)
	embed.NewConfig().AddFlags(known)
	flags := unitFlags(t)
	for name, value := range flags {
		require.NotNil(t, known.Lookup(name), name)
		require.NoError(t, known.Set(name, value), name)
	}
	require.Equal(t, map[string]string{
		"data-dir": "/var/lib/etcd/data", "quota-backend-bytes": "6442450944", "auto-compaction-retention": "0",
		"snapshot-count": "500", "snapshot-catchup-entries": "100",
		"listen-client-urls": "https://0.0.0.0:2379", "listen-peer-urls": "https://0.0.0.0:2380", "listen-metrics-urls": "http://127.0.0.1:2381",
		"cert-file": "/etc/etcd/tls/member.crt", "key-file": "/etc/etcd/tls/member.key", "trusted-ca-file": "/etc/etcd/tls/ca.crt", "client-cert-auth": "true",
		"peer-cert-file": "/etc/etcd/tls/member.crt", "peer-key-file": "/etc/etcd/tls/member.key", "peer-trusted-ca-file": "/etc/etcd/tls/ca.crt",
		"peer-client-cert-auth": "true", "peer-skip-client-san-verification": "true", "tls-min-version": "TLS1.2",
	}, flags)
	chart := readFile(t, "../helm/freshet/templates/etcd.yaml")
	for _, name := range []string{"snapshot-count", "snapshot-catchup-entries", "client-cert-auth", "peer-client-cert-auth", "peer-skip-client-san-verification"} {
		require.Contains(t, chart, "- --"+name+"="+flags[name]+"\n")
	}
}

// TestUnit_OfEtcdVerifies: systemd knows each setting of the unit.
func TestUnit_OfEtcdVerifies(t *testing.T) {
	program, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	path := filepath.Join(t.TempDir(), "etcd.service")
	// systemd-analyze looks for the program of the unit.
	unit := strings.ReplaceAll(readFile(t, "../systemd/etcd.service"), "/usr/local/bin/etcd", "/bin/true")
	require.NoError(t, os.WriteFile(path, []byte(unit), 0o600))
	out, err := exec.CommandContext(t.Context(), program, "verify", "--man=no", path).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NotContains(t, string(out), "etcd.service:")
}

// TestCertificates_OfEtcd: members and clients authenticate each other by the certificates of the script. A second call keeps the authority
// and makes other keys, which the old authority has signed.
func TestCertificates_OfEtcd(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not installed")
	}
	dir := filepath.Join(t.TempDir(), "certificates")
	run := func() {
		out, err := exec.CommandContext(t.Context(), "bash", "etcd-certificates.sh", "make", dir, "freshet-etcd.internal").CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	run()
	first := readFile(t, filepath.Join(dir, "a.key"))
	authority := x509.NewCertPool()
	require.True(t, authority.AppendCertsFromPEM([]byte(readFile(t, filepath.Join(dir, "ca.crt")))))
	run()
	require.NotEqual(t, first, readFile(t, filepath.Join(dir, "a.key")))
	for _, name := range []string{"a", "b", "c", "client"} {
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key"))
		require.NoError(t, err)
		options := x509.VerifyOptions{Roots: authority, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
		_, err = pair.Leaf.Verify(options)
		require.NoError(t, err, name)
		options.KeyUsages, options.DNSName = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, name+".freshet-etcd.internal"
		_, err = pair.Leaf.Verify(options)
		require.Equal(t, name == "client", err != nil, "%s as a server: %v", name, err)
		info, err := os.Stat(filepath.Join(dir, name+".key"))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
	require.NoFileExists(t, filepath.Join(dir, "openssl.log"))
}
