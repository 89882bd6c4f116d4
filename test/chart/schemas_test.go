package chart

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// Modules that hold the schemas of what the chart renders. They are downloaded, never built.
const (
	kubernetes  = "k8s.io/kubernetes@v1.34.4"
	keda        = "github.com/kedacore/keda/v2@v2.21.0"
	certManager = "github.com/cert-manager/cert-manager@v1.21.2"
	prometheus  = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
)

// customResources are files with definitions of custom resources, by module.
var customResources = map[string][]string{
	keda:        {"config/crd/bases/keda.sh_scaledobjects.yaml", "config/crd/bases/keda.sh_triggerauthentications.yaml"},
	certManager: {"deploy/crds/cert-manager.io_certificates.yaml"},
	prometheus:  {"example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml"},
}

// module returns the directory of a module, which is downloaded if it is not cached.
func module(t *testing.T, version string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("downloads modules")
	}
	cmd := exec.Command("go", "mod", "download", "-json", version)
	cmd.Dir = t.TempDir() // outside of this module
	out, err := cmd.Output()
	require.NoError(t, err, "%s", out)
	var m struct{ Dir string }
	require.NoError(t, json.Unmarshal(out, &m))
	return m.Dir
}

// schemas writes a JSON schema for each kind that kubeconform meets, and returns the directory. Unknown fields are errors.
func schemas(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for version, files := range customResources {
		root := module(t, version)
		for _, file := range files {
			writeCustom(t, dir, filepath.Join(root, file))
		}
	}
	writeKubernetes(t, dir)
	return dir
}

// writeKubernetes writes the API server's own kinds.
func writeKubernetes(t *testing.T, dir string) {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(module(t, kubernetes), "api/openapi-spec/swagger.json"))
	require.NoError(t, err)
	var api struct {
		Definitions map[string]map[string]any `json:"definitions"`
	}
	require.NoError(t, json.Unmarshal(source, &api))
	for name, definition := range api.Definitions {
		switch {
		case definition["format"] == "int-or-string":
			definition["type"] = []string{"integer", "string"}
		case strings.HasSuffix(name, ".resource.Quantity"):
			definition["type"] = []string{"number", "string"}
		}
		closeObjects(definition)
	}
	for name, definition := range api.Definitions {
		kinds, _ := definition["x-kubernetes-group-version-kind"].([]any)
		if len(kinds) != 1 { // several: options of calls and the like
			continue
		}
		kind := kinds[0].(map[string]any)
		used := map[string]any{}
		collect(definition, api.Definitions, used)
		used[name] = definition
		writeSchema(t, dir, kind["group"].(string), kind["version"].(string), kind["kind"].(string),
			map[string]any{"$ref": "#/definitions/" + name, "definitions": used})
	}
}

// collect adds the definitions that node refers to, however indirectly.
func collect(node any, all map[string]map[string]any, used map[string]any) {
	switch n := node.(type) {
	case map[string]any:
		if ref, ok := n["$ref"].(string); ok {
			name := strings.TrimPrefix(ref, "#/definitions/")
			if used[name] == nil {
				used[name] = all[name]
				collect(all[name], all, used)
			}
		}
		for _, below := range n {
			collect(below, all, used)
		}
	case []any:
		for _, below := range n {
			collect(below, all, used)
		}
	}
}

// writeCustom writes the versions of a custom resource.
func writeCustom(t *testing.T, dir, file string) {
	t.Helper()
	source, err := os.ReadFile(file)
	require.NoError(t, err)
	var crd struct {
		Spec struct {
			Group    string
			Names    struct{ Kind string }
			Versions []struct {
				Name   string
				Schema struct {
					OpenAPIV3Schema map[string]any `yaml:"openAPIV3Schema"`
				}
			}
		}
	}
	require.NoError(t, yaml.Unmarshal(source, &crd))
	require.NotEmpty(t, crd.Spec.Versions, file)
	for _, v := range crd.Spec.Versions {
		closeObjects(v.Schema.OpenAPIV3Schema)
		writeSchema(t, dir, crd.Spec.Group, v.Name, crd.Spec.Names.Kind, v.Schema.OpenAPIV3Schema)
	}
}

// closeObjects forbids other properties wherever some are listed.
func closeObjects(node any) {
	switch n := node.(type) {
	case map[string]any:
		_, lists := n["properties"].(map[string]any)
		_, says := n["additionalProperties"]
		if lists && !says && n["type"] == "object" && n["x-kubernetes-preserve-unknown-fields"] != true {
			n["additionalProperties"] = false
		}
		for _, below := range n {
			closeObjects(below)
		}
	case []any:
		for _, below := range n {
			closeObjects(below)
		}
	}
}

// writeSchema names the file as kubeconform looks it up.
func writeSchema(t *testing.T, dir, group, version, kind string, schema map[string]any) {
	t.Helper()
	suffix := "-" + version
	if first, _, _ := strings.Cut(group, "."); first != "" {
		suffix = "-" + first + suffix
	}
	out, err := json.Marshal(schema)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, strings.ToLower(kind+suffix)+".json"), out, 0o644))
}

// conform checks rendered files against the schemas. It returns kubeconform's complaints.
func conform(t *testing.T, schemas string, files ...string) (string, error) {
	t.Helper()
	return run(t, "kubeconform", "", append([]string{"-strict", "-schema-location", schemas + "/{{.ResourceKind}}{{.KindSuffix}}.json"}, files...)...)
}

func TestSchemas_RefuseWhatTheAPIServerWould(t *testing.T) {
	schemas := schemas(t)
	for name, c := range map[string]struct{ object, says string }{
		"an unknown field":   {"apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {port: 1}", "additional properties 'port' not allowed"},
		"a text":             {"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {replicas: three, selector: {}, template: {}}", "want integer"},
		"a field of KEDA":    {"apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nmetadata: {name: a}\nspec: {scaleTargetRef: {name: a}, triggers: [], minReplicas: 1}", "'minReplicas' not allowed"},
		"a field of a cert":  {"apiVersion: cert-manager.io/v1\nkind: Certificate\nmetadata: {name: a}\nspec: {secretName: a, issuerRef: {name: a}, hosts: []}", "'hosts' not allowed"},
		"a field of metrics": {"apiVersion: monitoring.coreos.com/v1\nkind: PodMonitor\nmetadata: {name: a}\nspec: {selector: {}, podMetricsEndpoints: [{name: a}]}", "'name' not allowed"},
		"an unknown kind":    {"apiVersion: v2\nkind: Service\nmetadata: {name: a}", "could not find schema"},
	} {
		file := filepath.Join(t.TempDir(), "object.yaml")
		require.NoError(t, os.WriteFile(file, []byte(c.object), 0o644))
		out, err := conform(t, schemas, file)
		require.Error(t, err, name)
		require.Contains(t, out, c.says, name)
	}
}
