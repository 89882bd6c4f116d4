package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// computed are the attributes of each type to which the module may refer. A type has its ID or its ARN, so that no expression has the wrong one.
var computed = map[string][]string{
	"aws_autoscaling_group":     {"arn"},
	"aws_cloudwatch_log_group":  {"arn", "name"},
	"aws_ecs_capacity_provider": {"name"},
	"aws_ecs_cluster":           {"arn", "name"},
	"aws_ecs_service":           {"name"},
	"aws_ecs_task_definition":   {"arn"},
	"aws_iam_instance_profile":  {"arn"},
	"aws_iam_role":              {"arn", "name"},
	"aws_launch_template":       {"id", "latest_version"},
	"aws_lb":                    {"arn", "dns_name"},
	"aws_lb_target_group":       {"arn"},
	"aws_s3_bucket":             {"bucket"},
	"aws_secretsmanager_secret": {"arn"},
	"aws_security_group":        {"id"},

	"aws_secretsmanager_random_password":          {"random_password"},
	"aws_service_discovery_private_dns_namespace": {"id"},
	"aws_service_discovery_service":               {"arn"},
}

// instance is one of the instances of a block with count or for_each, or the only one.
type instance struct {
	address string
	// key is the key of for_each, the index of count, or nil.
	key   *cty.Value
	scope map[string]cty.Value
	value cty.Value
}

// eval returns the value of an expression. scope has names such as each, beside the module's.
func (m *module) eval(e hclsyntax.Expression, scope map[string]cty.Value) (cty.Value, error) {
	// Names of blocks are nested: data.aws_region.current is tree["data"]["aws_region"]["current"].
	tree := map[string]any{}
	for _, t := range e.Variables() {
		if value, ok := scope[t.RootName()]; ok {
			tree[t.RootName()] = value
			continue
		}
		path := []string{t.RootName(), step(t, 1)}
		if path[0] == "data" || path[0] == "ephemeral" {
			path = append(path, step(t, 2))
		}
		value, err := m.resolve(path)
		if err != nil {
			return cty.NilVal, fmt.Errorf("%s: %w", t.SourceRange(), err)
		}
		in := tree
		for _, name := range path[:len(path)-1] {
			if in[name] == nil {
				in[name] = map[string]any{}
			}
			in = in[name].(map[string]any)
		}
		in[path[len(path)-1]] = value
	}
	value, diags := e.Value(&hcl.EvalContext{Variables: object(tree), Functions: functions})
	if diags.HasErrors() {
		return cty.NilVal, diags
	}
	return value, nil
}

// object returns a tree of names as objects.
func object(tree map[string]any) map[string]cty.Value {
	all := map[string]cty.Value{}
	for name, v := range tree {
		switch v := v.(type) {
		case cty.Value:
			all[name] = v
		case map[string]any:
			all[name] = cty.ObjectVal(object(v))
		}
	}
	return all
}

// resolve returns the value of a variable, a local or a block.
func (m *module) resolve(path []string) (cty.Value, error) {
	address := strings.Join(path, ".")
	if value, ok := m.values[address]; ok {
		return value, nil
	}
	if m.resolving[address] {
		return cty.NilVal, fmt.Errorf("%s refers to itself", address)
	}
	m.resolving[address] = true
	defer delete(m.resolving, address)
	var value cty.Value
	var err error
	switch path[0] {
	case "var":
		value, err = m.variable(path[1])
	case "local":
		if m.locals[path[1]] == nil {
			return cty.NilVal, fmt.Errorf("no %s", address)
		}
		value, err = m.eval(m.locals[path[1]], nil)
	default:
		value, err = m.block(address)
	}
	if err == nil {
		m.values[address] = value
	}
	return value, err
}

// block returns the value of a block: an object, or a tuple or an object of these.
func (m *module) block(address string) (cty.Value, error) {
	b := m.blocks[address]
	if b == nil {
		return cty.NilVal, fmt.Errorf("no %s", address)
	}
	all, err := m.instances(address, b)
	if err != nil {
		return cty.NilVal, err
	}
	switch {
	case b.Body.Attributes["for_each"] != nil:
		of := map[string]cty.Value{}
		for _, i := range all {
			of[i.key.AsString()] = i.value
		}
		return cty.ObjectVal(of), nil
	case b.Body.Attributes["count"] != nil:
		list := make([]cty.Value, 0, len(all))
		for _, i := range all {
			list = append(list, i.value)
		}
		return cty.TupleVal(list), nil
	}
	return all[0].value, nil
}

// instances returns the instances of a block.
func (m *module) instances(address string, b *hclsyntax.Block) ([]instance, error) {
	all := []instance{{address: address}}
	if a := b.Body.Attributes["for_each"]; a != nil {
		of, err := m.eval(a.Expr, nil)
		if err != nil {
			return nil, err
		}
		if of.Type().IsTupleType() || of.Type().IsListType() {
			return nil, fmt.Errorf("for_each of %s is a list", address)
		}
		if !of.IsKnown() || of.Type().IsSetType() && !of.IsWhollyKnown() {
			return nil, fmt.Errorf("for_each of %s is not known before apply", address)
		}
		all = all[:0]
		for key, value := range of.Elements() {
			each := cty.ObjectVal(map[string]cty.Value{"key": key, "value": value})
			all = append(all, instance{address: fmt.Sprintf("%s[%q]", address, key.AsString()), key: &key, scope: map[string]cty.Value{"each": each}})
		}
	} else if a := b.Body.Attributes["count"]; a != nil {
		count, err := m.eval(a.Expr, nil)
		if err != nil {
			return nil, err
		}
		if count, err = convert.Convert(count, cty.Number); err != nil {
			return nil, err
		}
		if !count.IsKnown() {
			return nil, fmt.Errorf("count of %s is not known before apply", address)
		}
		n, _ := count.AsBigFloat().Int64()
		all = all[:0]
		for i := range n {
			key := cty.NumberIntVal(i)
			all = append(all, instance{address: fmt.Sprintf("%s[%d]", address, i), key: &key, scope: map[string]cty.Value{"count": cty.ObjectVal(map[string]cty.Value{"index": key})}})
		}
	}
	for i := range all {
		value, err := m.attributes(all[i].address, b)
		if err != nil {
			return nil, err
		}
		all[i].value = value
	}
	return all, nil
}

// attributes returns the attributes of an instance: a data source's from the request, others' as placeholders, or unknown.
func (m *module) attributes(address string, b *hclsyntax.Block) (cty.Value, error) {
	if b.Type == "data" {
		value, ok := m.data[strings.TrimPrefix(address, "data.")]
		if !ok {
			return cty.NilVal, fmt.Errorf("the request has no data of %s: it has %v", address, slices.Sorted(maps.Keys(m.data)))
		}
		return value, nil
	}
	of := map[string]cty.Value{}
	for _, name := range computed[b.Labels[0]] {
		of[name] = cty.StringVal("<" + address + "." + name + ">")
		if m.plan {
			of[name] = cty.UnknownVal(cty.String)
		}
	}
	return cty.ObjectVal(of), nil
}
