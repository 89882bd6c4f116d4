package chart

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// option is one choice of a dimension: its name, and values of the chart in YAML.
type option struct{ name, values string }

// dimensions are the kinds of values that the matrix combines. Options are appended to one YAML file, so no two dimensions may set the
// same top-level key.
var dimensions = [][]option{
	{
		{"no zones", ""},
		{"one zone", "zones: [{name: a, external: {host: a.example.com, nodePort: 30092}}]"},
		{"three zones", "zones:\n" +
			"  - {name: a, external: {host: a.example.com, nodePort: 30092}}\n" +
			"  - {name: b, nodeSelector: {pool: b}, external: {host: b.example.com, nodePort: 30192}}\n" +
			"  - {name: c, nodeSelector: {}, external: {host: c.example.com, nodePort: 30292}}"},
	},
	{
		{"inside only", ""},
		{"load balancers", "external: {enabled: true, sourceRanges: [10.0.0.0/8]}"},
		{"node ports", "external: {enabled: true, type: NodePort}"},
	},
	{
		{"three members of etcd", ""},
		{"one member of etcd", "etcd: {replicas: 1, storage: {className: fast}}"},
		{"etcd elsewhere", "etcd: {external: [etcd-1.example.com:2379]}"},
	},
	{
		{"no autoscaler", ""},
		{"hpa", "agents: {autoscaling: {type: hpa}}"},
		{"keda", "agents: {autoscaling: {type: keda, minReplicas: 2, maxReplicas: 20}, resources: {limits: {cpu: 2}}}"},
	},
	{
		{"no policies", ""},
		{"policies", "networkPolicy: {enabled: true}"},
		{"policies for some", "networkPolicy: {enabled: true, from: [{namespaceSelector: {matchLabels: {team: apps}}}, {ipBlock: {cidr: 10.0.0.0/8}}]}"},
	},
	{
		{"no monitors", ""},
		{"monitors", "podMonitor: {enabled: true, interval: 30s, labels: {release: prometheus}}"},
	},
	{
		{"no TLS", ""},
		{"secrets", "tls: {kafkaSecret: kafka, controlPlaneSecret: controlplane, etcdSecret: etcd}"},
		{"secrets inside", "tls: {controlPlaneSecret: controlplane, etcdSecret: etcd}"},
		{"issuer", "tls: {issuer: {name: ca, kind: ClusterIssuer}}"},
	},
}

// possible reports whether the chart can render a choice.
func possible(choice []option) bool {
	names := map[string]bool{}
	for _, o := range choice {
		names[o.name] = true
	}
	needsZones := names["load balancers"] || names["node ports"] || names["keda"] || names["secrets"] || names["issuer"]
	return !names["no zones"] || !needsZones
}

// pairwise returns choices such that each possible pair of options is in one of them.
func pairwise(t *testing.T) [][]option {
	t.Helper()
	all := [][]option{{}}
	for _, d := range dimensions {
		var longer [][]option
		for _, c := range all {
			for _, o := range d {
				longer = append(longer, append(slices.Clone(c), o))
			}
		}
		all = longer
	}
	all = slices.DeleteFunc(all, func(c []option) bool { return !possible(c) })
	missing := map[[2]string]bool{}
	for _, c := range all {
		for _, p := range pairs(c) {
			missing[p] = true
		}
	}
	var chosen [][]option
	for len(missing) > 0 {
		best, most := 0, 0
		for i, c := range all {
			n := 0
			for _, p := range pairs(c) {
				if missing[p] {
					n++
				}
			}
			if n > most {
				best, most = i, n
			}
		}
		for _, p := range pairs(all[best]) {
			delete(missing, p)
		}
		chosen = append(chosen, all[best])
	}
	return chosen
}

func pairs(c []option) (pairs [][2]string) {
	for i := range c {
		for j := range i {
			pairs = append(pairs, [2]string{c[j].name, c[i].name})
		}
	}
	return pairs
}

// renders are the renders of all files of values and of a matrix of values, by name.
func renders(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, file := range cases(t) {
		all[filepath.Base(file)] = render(t, file)
	}
	base, err := os.ReadFile("testdata/default.values.yaml")
	require.NoError(t, err)
	for _, choice := range pairwise(t) {
		var names []string
		values := string(base)
		for _, o := range choice {
			names = append(names, o.name)
			values += o.values + "\n"
		}
		name := strings.Join(names, ", ")
		file := filepath.Join(t.TempDir(), "values.yaml")
		require.NoError(t, os.WriteFile(file, []byte(values), 0o644))
		all[name] = render(t, file)
		require.Equal(t, all[name], render(t, file), "%s: a second render differs", name)
	}
	t.Logf("%d renders", len(all))
	return all
}

// TestChart_Matrix renders pairs of all kinds of values, and checks what holds for every render.
func TestChart_Matrix(t *testing.T) {
	all := renders(t)
	var files []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		file := filepath.Join(t.TempDir(), strings.ReplaceAll(name, " ", "-")+".yaml")
		require.NoError(t, os.WriteFile(file, []byte(all[name]), 0o644))
		files = append(files, file)
		t.Run(name, func(t *testing.T) { checkObjects(t, name, objects(t, all[name])) })

		out, err := run(t, "podsecurity", all[name])
		require.NoError(t, err, "%s: Pod Security restricted: %s", name, out)
	}
	out, err := conform(t, schemas(t), files...)
	require.NoError(t, err, out)
}

// TestPodSecurity_RefusesPrivileges: the check can fail.
func TestPodSecurity_RefusesPrivileges(t *testing.T) {
	pod := strings.Replace(render(t, "testdata/default.values.yaml"), "runAsNonRoot: true", "runAsNonRoot: false", 1)
	out, err := run(t, "podsecurity", pod)
	require.Error(t, err)
	require.Contains(t, out, "runAsNonRoot != true")
}

// TestChart_LooksNothingUp: renders do not depend on the cluster, so an upgrade without change changes nothing.
func TestChart_LooksNothingUp(t *testing.T) {
	files, err := filepath.Glob(chart + "/templates/*")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, function := range []string{"lookup ", "randAlpha", "genCA", "genSigned", "genSelfSigned", "genPrivateKey", "uuidv4", "now "} {
			require.NotContains(t, string(source), function, file)
		}
	}
}
