package chart

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

var golden = flag.Bool("golden", false, "write the renders into testdata")

const chart = "../../deploy/helm/freshet"

// helm runs Helm.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return run(t, "helm", "", args...)
}

var paths sync.Map // of the programs of tools/helm, by name

// run runs a program of tools/helm, which is built if it is not cached. It returns both outputs.
func run(t *testing.T, program, input string, args ...string) (string, error) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds Helm and other programs")
	}
	path, ok := paths.Load(program)
	if !ok {
		var errs bytes.Buffer // also the progress of downloads
		build := exec.Command("go", "-C", "../../tools/helm", "tool", "-n", program)
		build.Stderr = &errs
		out, err := build.Output()
		require.NoError(t, err, errs.String())
		path = strings.TrimSpace(string(out))
		paths.Store(program, path)
	}
	var out, errs bytes.Buffer
	cmd := exec.Command(path.(string), args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errs
	err := cmd.Run()
	return out.String() + errs.String(), err
}

// render renders the chart with a file of values as release "freshet" in namespace "kafka".
func render(t *testing.T, values string, more ...string) string {
	t.Helper()
	out, err := helm(t, append([]string{"template", "freshet", chart, "--namespace", "kafka", "--values", values}, more...)...)
	require.NoError(t, err, out)
	return out
}

// cases are the files of values in testdata.
func cases(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.values.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

func TestChart_Lint(t *testing.T) {
	for _, values := range cases(t) {
		out, err := helm(t, "lint", "--strict", "--quiet", chart, "--values", values)
		require.NoError(t, err, out)
	}
}

// TestChart_Renders compares with testdata; `go test ./test/chart -golden` writes it anew.
func TestChart_Renders(t *testing.T) {
	for _, values := range cases(t) {
		got := render(t, values)
		require.Equal(t, got, render(t, values), "a second render differs: an upgrade without change would restart pods")
		path := strings.TrimSuffix(values, ".values.yaml") + ".golden.yaml"
		if *golden {
			require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
			continue
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(want), got, values)
	}
}

// TestChart_Flags: the program knows every flag that the chart gives it.
func TestChart_Flags(t *testing.T) {
	for _, values := range cases(t) {
		for _, args := range arguments(t, render(t, values)) {
			out, err := exec.Command(harness.Freshet(t), append(args, "--help")...).CombinedOutput()
			require.NoError(t, err, "%s\n%s", args, out)
		}
	}
}

// arguments returns those of each container that runs Freshet.
func arguments(t *testing.T, rendered string) (all [][]string) {
	t.Helper()
	for _, o := range objects(t, rendered) {
		for _, c := range o.Spec.Template.Spec.Containers {
			if c.Name != "etcd" {
				all = append(all, c.Args)
			}
		}
	}
	require.NotEmpty(t, all)
	return all
}

// manyZones are n more zones.
func manyZones(n int) (set string) {
	for i := range n {
		set += fmt.Sprintf(",zones[%d].name=z%d", i+1, i+1)
	}
	return set
}

// TestChart_Refuses: what cannot work is refused with the setting and the remedy.
func TestChart_Refuses(t *testing.T) {
	for name, c := range map[string]struct{ set, says string }{
		"no image":             {"image.repository=", "make image PUSH="},
		"no bucket":            {"bucket=", "bucket is required"},
		"no agent key":         {"keys.secret=", "kubectl create secret generic"},
		"a flag of the chart":  {"agents.settings.zone=b", "agents.settings.zone is set by the chart: use zones"},
		"two numbers":          {"zones[0].name=a,agents.replicas=2", "use zones[].replicas"},
		"a long zone":          {"zones[0].name=" + strings.Repeat("a", 60), "longer than 63 characters"},
		"no address outside":   {"external.enabled=true,zones[0].name=a", "zone a needs external.host"},
		"node ports twice":     {"external.enabled=true,external.type=NodePort,zones[0].name=a,zones[0].external.host=h,zones[0].external.nodePort=30092,zones[1].name=b,zones[1].external.host=i,zones[1].external.nodePort=30095", "zones a and b share node port 30095: external.nodePort is the first of 8"},
		"one address twice":    {"external.enabled=true,zones[0].name=a,zones[0].external.host=h,zones[1].name=b,zones[1].external.host=h", "zones a and b have the external address h:9192"},
		"an IPv6 address":      {"external.enabled=true,zones[0].name=a,zones[0].external.host=fd00::1", "at '/zones/0/external/host'"},
		"a zone -external":     {"external.enabled=true,zones[0].name=a-external,zones[0].external.host=h,zones[1].name=a,zones[1].external.host=i", "zone a: another zone or Service has this name"},
		"a zone -external 2nd": {"external.enabled=true,zones[0].name=a,zones[0].external.host=h,zones[1].name=a-external,zones[1].external.host=i", "zone a-external: another zone or Service has this name"},
		"enabled as a text":    {"enabled=maybe", "at '/enabled': got string, want boolean"},
		"no surge":             {"agents.maxSurge=0%", "at '/agents/maxSurge'"},
		"a volume twice":       {"agents.extraVolumes[0].name=kafka-tls", "agents.extraVolumes: the name kafka-tls is the chart's own"},
		"a name with a digit":  {"fullnameOverride=1abc", "at '/fullnameOverride'"},
		"no node port":         {"external.enabled=true,external.type=NodePort,zones[0].name=a,zones[0].external.host=h", "zone a needs external.nodePort"},
		"outside, no zones":    {"external.enabled=true", "external.enabled needs zones"},
		"volumes without unit": {"etcd.storage.size=8GB", "at '/etcd/storage/size': '8GB' does not match pattern"},
		"an unknown value":     {"agents.replica=2", "at '/agents': additional properties 'replica' not allowed"},
		"a text for a number":  {"controlPlane.replicas=three", "at '/controlPlane/replicas': got string, want integer"},
		"a misspelt zone key":  {"zones[0].name=a,zones[0].node=b", "at '/zones/0': additional properties 'node' not allowed"},
		"a zone twice":         {"zones[0].name=a,zones[1].name=a", "zone a: another zone or Service has this name"},
		"a zone external":      {"external.enabled=true,zones[0].name=external,zones[0].external.host=h", "zone external: another zone or Service has this name"},
		"zone listeners":       {"agents.settings.zone-listeners=x", "agents.settings.zone-listeners is set by the chart: use zones"},
		"too many zones":       {"zones[0].name=z0" + manyZones(15), "16 zones are more than the 15 whose ports an agent has"},
		"too many outside":     {"external.enabled=true,zones[0].name=z0" + manyZones(7), "8 zones are more than the 7 whose ports an agent has"},
		"listeners' zones":     {"agents.settings.listener-zones=x", "agents.settings.listener-zones is set by the chart: use zones"},
		"a zone named etcd":    {"zones[0].name=etcd", "zone etcd: another zone or Service has this name"},
		"a request too high":   {"agents.resources.limits.memory=1Gi", "agents.resources: the memory request 2Gi is above the limit 1Gi"},
		"KEDA without zones":   {"agents.autoscaling.type=keda", "agents.autoscaling.type keda needs zones"},
		"KEDA without limit":   {"agents.autoscaling.type=keda,zones[0].name=a", "needs agents.resources.limits.cpu"},
		"a number and KEDA":    {"agents.resources.limits.cpu=1,agents.autoscaling.type=keda,zones[0].name=a,zones[0].replicas=2", "zone a: replicas and agents.autoscaling.type exclude each other"},
		"a number and HPA":     {"agents.autoscaling.type=hpa,agents.replicas=2", "agents.replicas and agents.autoscaling.type exclude each other"},
		"HPA without requests": {"agents.autoscaling.type=hpa,agents.resources.requests.cpu=null", "needs agents.resources.requests.cpu"},
		"bounds of scaling":    {"agents.autoscaling.type=hpa,agents.autoscaling.minReplicas=11", "minReplicas 11 is above maxReplicas 10"},
		"TLS without zones":    {"tls.issuer.name=ca", "tls.kafkaSecret and tls.issuer need zones"},
		"TLS, no address":      {"tls.issuer.name=ca,external.enabled=true,zones[0].name=a", "zone a needs external.host"},
		"an unnamed issuer":    {"tls.issuer.kind=ClusterIssuer", "at '/tls/issuer': properties 'name' required, if 'kind' exists"},
		"a flag of operators":  {"controlPlane.settings.operator-key=k", "controlPlane.settings.operator-key is set by the chart: use keys"},
		"a flag of scalers":    {"controlPlane.settings.read-only-key=k", "controlPlane.settings.read-only-key is set by the chart: use keys"},
		"a flag of TLS":        {"controlPlane.settings.tls-cert=f", "controlPlane.settings.tls-cert is set by the chart: use tls.controlPlaneSecret"},
		"no state bucket":      {"parts=provider", "parts: provider needs stateBucket"},
		"no domain":            {"parts=provider,stateBucket=s3://s", "parts: provider needs provider.domain"},
		"no secret of the API": {"parts=provider,stateBucket=s3://s,provider.domain=example.com", "parts: provider needs provider.apiSecret"},
		"no operator key":      {"parts=provider,stateBucket=s3://s,provider.domain=example.com,provider.apiSecret=api,keys.secret=", "parts: provider needs keys.secret"},
		"no TLS for tenants":   {"parts=provider,stateBucket=s3://s,provider.domain=example.com,provider.apiSecret=api", "parts: provider needs tls.controlPlaneSecret or tls.issuer"},
		"no control planes":    {"parts=tenant", "parts: tenant needs tenant.controlPlanes"},
		"a URL of a provider":  {"parts=tenant,tenant.controlPlanes[0]=https://cp.example.com:443", "at '/tenant/controlPlanes/0'"},
		"KEDA of a tenant":     {"parts=tenant,agents.autoscaling.type=keda", "agents.autoscaling.type keda asks control planes of the same release: use hpa"},
		"a flag of the API":    {"controlPlane.settings.public-listen=:1", "controlPlane.settings.public-listen is set by the chart"},
		"an unknown type":      {"external.type=ClusterIP", "at '/external/type': value must be one of 'LoadBalancer', 'NodePort'"},
	} {
		out, err := helm(t, "template", "freshet", chart, "--values", "testdata/default.values.yaml", "--set", c.set)
		require.Error(t, err, name)
		require.Contains(t, out, c.says, name)
	}
}

// TestChart_ZoneNamedExternal: without clients outside, no Service has the name that the zone a-external takes.
func TestChart_ZoneNamedExternal(t *testing.T) {
	var names []string
	for _, o := range objects(t, render(t, "testdata/default.values.yaml", "--set", "zones[0].name=a,zones[1].name=a-external")) {
		if o.Kind == "Service" {
			names = append(names, o.Metadata.Name)
		}
	}
	require.Subset(t, names, []string{"freshet-a", "freshet-a-external"})
}

// TestChart_Parts: a provider runs no agents, and a tenant runs nothing else.
func TestChart_Parts(t *testing.T) {
	workloads := func(rendered string) (names []string) {
		for _, o := range objects(t, rendered) {
			if o.Kind == "StatefulSet" || o.Kind == "Deployment" {
				names = append(names, o.Metadata.Name)
			}
		}
		return names
	}
	provider := render(t, "testdata/provider.values.yaml", "--set", "tls.controlPlaneSecret=,tls.etcdSecret=,tls.issuer.name=ca")
	require.Equal(t, []string{"freshet-controlplane", "freshet-etcd"}, workloads(provider))
	require.Contains(t, provider, `"*.example.com"`, "the certificate has the names of the replicas")
	require.NotContains(t, provider, "agent-key")
	tenant := render(t, "testdata/tenant.values.yaml", "--set", "tls.issuer.name=ca")
	require.Equal(t, []string{"freshet-agent-eu-central-1a", "freshet-agent-eu-central-1b"}, workloads(tenant))
	require.NotContains(t, tenant, "freshet-controlplane-tls", "the provider has this certificate")
	public := render(t, "testdata/tenant.values.yaml", "--set", "tenant.caSecret=")
	require.Contains(t, public, "- --control-plane-tls\n")
	require.NotContains(t, public, "control-plane-tls-ca")
}

// TestChart_AsADependency: a parent chart turns the chart on and off by a condition.
func TestChart_AsADependency(t *testing.T) {
	parent := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(parent, "Chart.yaml"), []byte(`{apiVersion: v2, name: parent, version: 1.0.0,
dependencies: [{name: freshet, version: "*", repository: "", condition: freshet.enabled}]}`), 0o644))
	require.NoError(t, os.CopyFS(filepath.Join(parent, "charts", "freshet"), os.DirFS(chart)))
	own, err := os.ReadFile("testdata/default.values.yaml")
	require.NoError(t, err)
	values := filepath.Join(t.TempDir(), "values.yaml")
	require.NoError(t, os.WriteFile(values, []byte("global: {region: eu}\nfreshet:\n  "+strings.ReplaceAll(string(own), "\n", "\n  ")), 0o644))
	for _, enabled := range []bool{true, false} {
		out, err := helm(t, "template", "parent", parent, "--values", values, "--set", fmt.Sprintf("freshet.enabled=%t", enabled))
		require.NoError(t, err, out)
		require.Equal(t, enabled, strings.Contains(out, "name: parent-freshet-agent\n"), out)
	}
}
