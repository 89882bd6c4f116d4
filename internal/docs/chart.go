package docs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

const chartIntro = generated + `# Freshet on Kubernetes

Agents, control plane and etcd, for Kubernetes 1.30 or later. There is no default image and no default object store:

` + "```sh" + `
make image PUSH=registry.example.com/freshet:v1
kubectl create namespace kafka
kubectl -n kafka create secret generic freshet --from-literal=agent-key="$(openssl rand -hex 32)" \
  --from-literal=operator-key="$(openssl rand -hex 32)" --from-literal=read-only-key="$(openssl rand -hex 32)"
helm install freshet deploy/helm/freshet -n kafka --set image.repository=registry.example.com/freshet,image.tag=v1 \
  --set keys.secret=freshet --set-string bucket='s3://name/prefix?region=eu-central-1'
` + "```" + `

Clients in the cluster bootstrap at ` + "`freshet.kafka.svc:9092`" + `. With ` + "`zones`" + `, those of a zone may use ` + "`freshet-<zone>.kafka.svc:9092`" + `.
` + "`kubectl -n kafka scale deployment/freshet-agent --replicas=3`" + ` sets the number of agents, and ` + "`helm upgrade`" + ` leaves it as it is.

## Values

An unknown value is refused (` + "`values.schema.json`" + `). Charts that depend on this one may also set ` + "`global`" + `, and ` + "`enabled`" + ` for
` + "`condition: freshet.enabled`" + ` of the dependency.

| Value | Default | Meaning |
|---|---|---|
`

// chartValue is a value of the chart: a leaf, or a map of others.
type chartValue struct {
	path    string
	node    *yaml.Node
	comment string
	values  []chartValue // nil for a leaf
}

// Chart returns the files of the chart that are generated from its values.yaml, by name. dir is the chart's directory.
func Chart(dir string) (map[string]string, error) {
	source, err := os.ReadFile(filepath.Join(dir, "values.yaml"))
	if err != nil {
		return nil, err
	}
	return chartFiles(source, chartTypes())
}

func chartFiles(source []byte, types map[string]schema) (map[string]string, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(source, &document); err != nil {
		return nil, err
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("values.yaml is not a map")
	}
	root, err := readChartValue("", document.Content[0], "", types)
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	s, err := chartSchema(root, types, used)
	if err != nil {
		return nil, err
	}
	for key := range types {
		if !used[key] {
			return nil, fmt.Errorf("the type of %s belongs to no value", key)
		}
	}
	s["$schema"] = "http://json-schema.org/draft-07/schema#"
	properties := s["properties"].(schema) // and two that a parent chart may set
	properties["global"] = schema{"type": "object"}
	properties["enabled"] = schema{"type": "boolean"}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(s); err != nil {
		return nil, err
	}
	return map[string]string{"values.schema.json": b.String(), "README.md": chartIntro + chartTable(root.values)}, nil
}

// readChartValue reads a node and those below. Maps that have a type of their own are leaves.
func readChartValue(path string, node *yaml.Node, comment string, types map[string]schema) (chartValue, error) {
	v := chartValue{path: path, node: node, comment: comment}
	if _, typed := typeOf(path, types); typed != nil || node.Kind != yaml.MappingNode || len(node.Content) == 0 {
		if comment == "" {
			return v, fmt.Errorf("%s has no comment in values.yaml", path)
		}
		return v, nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		below, err := readChartValue(strings.TrimPrefix(path+"."+key.Value, "."), node.Content[i+1], plainComment(key.HeadComment), types)
		if err != nil {
			return v, err
		}
		v.values = append(v.values, below)
	}
	return v, nil
}

func plainComment(comment string) string {
	lines := strings.Split(comment, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(strings.TrimPrefix(line, "#"))
	}
	return strings.TrimSpace(strings.Join(lines, " "))
}

// typeOf returns the type of a path in the table, and its key there.
func typeOf(path string, types map[string]schema) (string, schema) {
	if s, ok := types[path]; ok {
		return path, s
	}
	key := "*." + path[strings.LastIndex(path, ".")+1:]
	return key, types[key]
}

func chartSchema(v chartValue, types map[string]schema, used map[string]bool) (schema, error) {
	if v.values == nil {
		return leafSchema(v, types, used)
	}
	properties := schema{}
	for _, below := range v.values {
		s, err := chartSchema(below, types, used)
		if err != nil {
			return nil, err
		}
		properties[below.path[strings.LastIndex(below.path, ".")+1:]] = s
	}
	s := closed(properties)
	if v.comment != "" {
		s["description"] = v.comment
	}
	return s, nil
}

func leafSchema(v chartValue, types map[string]schema, used map[string]bool) (schema, error) {
	s := schema{"description": v.comment}
	if key, typed := typeOf(v.path, types); typed != nil {
		used[key] = true
		for name, value := range typed {
			s[name] = value
		}
		return s, nil
	}
	switch v.node.Tag {
	case "!!str":
		s["type"] = "string"
	case "!!bool":
		s["type"] = "boolean"
	case "!!int":
		s["type"], s["minimum"] = "integer", 0
	default:
		return nil, fmt.Errorf("the default of %s does not tell its type: add it to chartTypes", v.path)
	}
	return s, nil
}

// chartTable returns the rows of values, each map's before those below it.
func chartTable(values []chartValue) string {
	var b strings.Builder
	for _, v := range values {
		if v.comment != "" {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", v.path, cell(defaultOf(v)), strings.ReplaceAll(v.comment, "|", `\|`))
		}
		b.WriteString(chartTable(v.values))
	}
	return b.String()
}

// defaultOf returns a leaf's default as flow YAML.
func defaultOf(v chartValue) string {
	if v.values != nil {
		return ""
	}
	node := *v.node
	node.HeadComment, node.LineComment, node.FootComment = "", "", ""
	flow(&node)
	out, err := yaml.Marshal(&node)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(out))
}

func flow(n *yaml.Node) {
	n.Style |= yaml.FlowStyle
	for _, below := range n.Content {
		flow(below)
	}
}
