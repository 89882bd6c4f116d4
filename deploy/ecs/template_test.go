package ecs

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// file is the template.
const file = "cloudformation.yaml"

// object is a mapping of the template. A short tag such as !Sub is a mapping of one key, Fn::Sub.
type object = map[string]any

// noValue is the value of AWS::NoValue, which removes a property or an element.
type noValue struct{}

// source returns the text of the template.
func source(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

// parse returns the template without short tags.
func parse(t *testing.T, text string) object {
	t.Helper()
	var node yaml.Node
	require.NoError(t, yaml.Unmarshal([]byte(text), &node))
	root, ok := plain(t, node.Content[0]).(object)
	require.True(t, ok)
	return root
}

// plain returns a node as mappings, lists and strings.
func plain(t *testing.T, n *yaml.Node) any {
	t.Helper()
	var value any
	switch n.Kind {
	case yaml.MappingNode:
		of := object{}
		for i := 0; i < len(n.Content); i += 2 {
			key := n.Content[i].Value
			require.NotContains(t, of, key, "line %d: key twice", n.Content[i].Line)
			of[key] = plain(t, n.Content[i+1])
		}
		value = of
	case yaml.SequenceNode:
		list := []any{}
		for _, c := range n.Content {
			list = append(list, plain(t, c))
		}
		value = list
	default:
		require.NotEqual(t, yaml.AliasNode, n.Kind, "line %d: CloudFormation takes no aliases", n.Line)
		value = n.Value
	}
	switch tag := n.Tag; {
	case tag == "!Ref", tag == "!Condition":
		return object{tag[1:]: value}
	case tag == "!GetAtt":
		resource, attribute, _ := strings.Cut(n.Value, ".")
		return object{"Fn::GetAtt": []any{resource, attribute}}
	case strings.HasPrefix(tag, "!") && !strings.HasPrefix(tag, "!!"):
		return object{"Fn::" + tag[1:]: value}
	}
	return value
}

// stack is a template with parameters.
type stack struct {
	t          *testing.T
	root       object
	parameters map[string]string
	// instances, if set, is the stack of ec2.yaml whose outputs this one imports.
	instances *stack
}

// required are parameters without a default.
var required = map[string]string{
	"Vpc": "vpc-0a", "SubnetA": "subnet-0000000a", "ZoneA": "eu-1a", "CidrA": "10.0.1.0/24", "ClientCidr1": "10.0.0.0/16",
	"Image": "registry.example.com/freshet:v1", "EtcdEndpoints": "etcd-1:2379,etcd-2:2379",
}

// full are parameters of a stack that has everything.
var full = map[string]string{
	"SubnetB": "subnet-0000000b", "ZoneB": "eu-1b", "CidrB": "10.0.2.0/24", "SubnetC": "subnet-0000000c", "ZoneC": "eu-1c", "CidrC": "10.0.3.0/24",
	"ClientCidr2": "10.1.0.0/16", "ClientCidr3": "10.2.0.0/16", "ClientZones": "10.1.1.0/24=eu-1a", "OperatorCidr": "10.9.0.0/24",
	"RouteTables": "rtb-00000001,rtb-00000002", "InterfaceEndpoints": "true", "LoadBalancers": "true", "EtcdClientGroup": "sg-0000000e",
	"EcrRepositoryArn": "arn:aws:ecr:eu-1:123456789012:repository/freshet",
}

// with returns a stack of the required parameters, the defaults, and more.
func with(t *testing.T, root object, more ...map[string]string) *stack {
	t.Helper()
	s := &stack{t: t, root: root, parameters: map[string]string{
		"AWS::Region": "eu-1", "AWS::StackName": "kafka", "AWS::Partition": "aws", "AWS::AccountId": "1",
	}}
	for name, p := range root["Parameters"].(object) {
		if value, ok := p.(object)["Default"]; ok {
			s.parameters[name] = value.(string)
		}
	}
	for _, values := range append([]map[string]string{required}, more...) {
		maps.Copy(s.parameters, values)
	}
	return s
}

// refused returns the descriptions of the parameters and rules that refuse the stack.
func (s *stack) refused() []string {
	var faults []string
	for name, p := range s.root["Parameters"].(object) {
		p := p.(object)
		value := s.parameters[name]
		if pattern, ok := p["AllowedPattern"].(string); ok && !regexp.MustCompile(pattern).MatchString(value) {
			faults = append(faults, name+" does not match")
		}
		if allowed, ok := p["AllowedValues"].([]any); ok && !slices.Contains(allowed, any(value)) {
			faults = append(faults, name+" is not allowed")
		}
	}
	for _, r := range s.root["Rules"].(object) {
		for _, a := range r.(object)["Assertions"].([]any) {
			if s.eval(a.(object)["Assert"]) != true {
				faults = append(faults, a.(object)["AssertDescription"].(string))
			}
		}
	}
	slices.Sort(faults)
	return faults
}

// resources returns the resources of the stack by name, with all functions evaluated.
func (s *stack) resources() map[string]object {
	all := map[string]object{}
	for name, r := range s.root["Resources"].(object) {
		if s.exists(name) {
			all[name] = s.eval(r).(object)
		}
	}
	return all
}

// exists reports whether a resource has no condition, or one that is true.
func (s *stack) exists(resource string) bool {
	condition, ok := s.root["Resources"].(object)[resource].(object)["Condition"].(string)
	return !ok || s.condition(condition)
}

func (s *stack) condition(name string) bool {
	require.Contains(s.t, s.root["Conditions"], name)
	return s.eval(s.root["Conditions"].(object)[name]) == true
}

// eval returns a value with its functions evaluated. Identifiers that AWS gives are <Name> or <Name.Attribute>.
func (s *stack) eval(value any) any {
	switch v := value.(type) {
	case []any:
		list := []any{}
		for _, e := range v {
			if e = s.eval(e); e != (noValue{}) {
				list = append(list, e)
			}
		}
		return list
	case object:
		if len(v) == 1 {
			for name, argument := range v {
				if name == "Ref" || name == "Condition" || strings.HasPrefix(name, "Fn::") {
					return s.call(name, argument)
				}
			}
		}
		of := object{}
		for key, e := range v {
			if e = s.eval(e); e != (noValue{}) {
				of[key] = e
			}
		}
		return of
	}
	return value
}

// call evaluates a function.
func (s *stack) call(function string, argument any) any {
	s.t.Helper()
	switch function {
	case "Ref":
		return s.ref(argument.(string))
	case "Condition":
		return s.condition(argument.(string))
	case "Fn::If":
		a := argument.([]any)
		if s.condition(a[0].(string)) {
			return s.eval(a[1])
		}
		return s.eval(a[2])
	case "Fn::Sub":
		return s.sub(argument)
	case "Fn::ImportValue":
		return s.imported(s.eval(argument).(string))
	}
	a := s.eval(argument).([]any)
	switch function {
	case "Fn::GetAtt":
		return s.ref(a[0].(string) + "." + a[1].(string))
	case "Fn::Equals":
		return a[0] == a[1]
	case "Fn::Not":
		return a[0] == false
	case "Fn::And":
		return !slices.Contains(a, any(false))
	case "Fn::Or":
		return slices.Contains(a, any(true))
	case "Fn::Select":
		require.Equal(s.t, "0", a[0])
		return a[1].([]any)[0]
	case "Fn::Split":
		parts := []any{}
		for e := range strings.SplitSeq(a[1].(string), a[0].(string)) {
			parts = append(parts, e)
		}
		return parts
	case "Fn::Join":
		parts := []string{}
		for _, e := range a[1].([]any) {
			parts = append(parts, e.(string))
		}
		return strings.Join(parts, a[0].(string))
	case "Fn::FindInMap":
		return s.root["Mappings"].(object)[a[0].(string)].(object)[a[1].(string)].(object)[a[2].(string)]
	}
	require.Fail(s.t, "a function that this test does not know", function)
	return nil
}

// imported returns the value of an export of the stack of ec2.yaml.
func (s *stack) imported(name string) any {
	s.t.Helper()
	require.NotNil(s.t, s.instances, "import of %s", name)
	value, ok := s.instances.exports()[name]
	require.True(s.t, ok, "import of %s, which ec2.yaml does not export", name)
	return value
}

// exports returns the exported outputs of the stack by name.
func (s *stack) exports() map[string]any {
	all := map[string]any{}
	for _, o := range s.root["Outputs"].(object) {
		condition, ok := get(o, "Condition").(string)
		if name := get(o, "Export", "Name"); name != nil && (!ok || s.condition(condition)) {
			all[s.eval(name).(string)] = s.eval(get(o, "Value"))
		}
	}
	return all
}

// ref returns the value of a parameter, or the identifier of a resource.
func (s *stack) ref(name string) any {
	s.t.Helper()
	if name == "AWS::NoValue" {
		return noValue{}
	}
	if value, ok := s.parameters[name]; ok {
		return value
	}
	resource, _, _ := strings.Cut(name, ".")
	require.Contains(s.t, s.root["Resources"], resource, "reference to %s", name)
	require.True(s.t, s.exists(resource), "reference to %s, which the stack does not have", name)
	return "<" + name + ">"
}

var placeholder = regexp.MustCompile(`\$\{([^}]+)\}`)

// sub evaluates Fn::Sub.
func (s *stack) sub(argument any) string {
	s.t.Helper()
	own := object{}
	if list, ok := argument.([]any); ok {
		argument, own = list[0], s.eval(list[1]).(object)
	}
	return placeholder.ReplaceAllStringFunc(argument.(string), func(m string) string {
		name := m[2 : len(m)-1]
		if value, ok := own[name]; ok {
			return fmt.Sprint(value)
		}
		return fmt.Sprint(s.ref(name))
	})
}
