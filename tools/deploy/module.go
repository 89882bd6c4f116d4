package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// module is a parsed Terraform module with inputs. Values are evaluated once, when an expression refers to them.
type module struct {
	variables map[string]*hclsyntax.Block
	locals    map[string]hclsyntax.Expression
	outputs   map[string]*hclsyntax.Block
	// blocks are resources, data sources and ephemeral resources by address: aws_lb.zone, data.aws_subnet.zone.
	blocks map[string]*hclsyntax.Block

	inputs map[string]cty.Value
	data   map[string]cty.Value
	plan   bool

	values    map[string]cty.Value
	resolving map[string]bool
}

// variable returns the value of an input variable, or its default.
func (m *module) variable(name string) (cty.Value, error) {
	b := m.variables[name]
	if b == nil {
		return cty.NilVal, fmt.Errorf("no variable %s", name)
	}
	value, ok := m.inputs[name]
	if a := b.Body.Attributes["default"]; !ok && a != nil {
		var diags hcl.Diagnostics
		if value, diags = a.Expr.Value(nil); diags.HasErrors() {
			return cty.NilVal, diags
		}
	} else if !ok {
		return cty.NilVal, fmt.Errorf("variable %s has no value", name)
	}
	if b.Body.Attributes["type"] == nil || b.Body.Attributes["description"] == nil {
		return cty.NilVal, fmt.Errorf("variable %s has no type or no description", name)
	}
	t, defaults, diags := typeexpr.TypeConstraintWithDefaults(b.Body.Attributes["type"].Expr)
	if diags.HasErrors() {
		return cty.NilVal, diags
	}
	if defaults != nil && !value.IsNull() {
		value = defaults.Apply(value)
	}
	value, err := convert.Convert(value, t)
	if err != nil {
		return cty.NilVal, fmt.Errorf("variable %s: %w", name, err)
	}
	return value, nil
}

// render evaluates the module.
func (m *module) render() (*rendering, error) {
	r := &rendering{Refused: []string{}, Resources: map[string]resource{}, Outputs: map[string]any{}}
	for _, b := range m.variables {
		if err := m.conditions(r, b.Body, "validation", nil); err != nil {
			return nil, err
		}
	}
	slices.Sort(r.Refused)
	if len(r.Refused) > 0 {
		return r, nil
	}
	for address, b := range m.blocks {
		if err := m.renderBlock(r, address, b); err != nil {
			return nil, fmt.Errorf("%s: %w", address, err)
		}
	}
	for name, b := range m.outputs {
		value, err := m.eval(b.Body.Attributes["value"].Expr, nil)
		if err != nil {
			return nil, fmt.Errorf("output %s: %w", name, err)
		}
		if r.Outputs[name], err = plain(value); err != nil {
			return nil, err
		}
	}
	slices.Sort(r.Refused)
	return r, nil
}

// conditions evaluates the conditions of all blocks of a type, such as validation.
func (m *module) conditions(r *rendering, b *hclsyntax.Body, blockType string, scope map[string]cty.Value) error {
	for _, block := range b.Blocks {
		if block.Type != blockType {
			continue
		}
		ok, err := m.eval(block.Body.Attributes["condition"].Expr, scope)
		if err != nil {
			return err
		}
		message, err := m.eval(block.Body.Attributes["error_message"].Expr, scope)
		if err != nil {
			return err
		}
		if ok.False() {
			r.Refused = append(r.Refused, message.AsString())
		}
	}
	return nil
}

// renderBlock evaluates the instances of a resource, data source or ephemeral resource.
func (m *module) renderBlock(r *rendering, address string, b *hclsyntax.Block) error {
	dependsOn, err := m.references(b.Body)
	if err != nil {
		return err
	}
	instances, err := m.instances(address, b)
	if err != nil {
		return err
	}
	for _, i := range instances {
		values, err := m.body(b.Body, i.scope)
		if err != nil {
			return fmt.Errorf("%s: %w", i.address, err)
		}
		res := resource{Type: b.Labels[0], Values: values, DependsOn: dependsOn}
		for _, l := range b.Body.Blocks {
			if l.Type != "lifecycle" {
				continue
			}
			if err := m.lifecycle(r, &res, l.Body, i); err != nil {
				return err
			}
		}
		if b.Type != "data" {
			r.Resources[i.address] = res
		}
	}
	return nil
}

// lifecycle evaluates a lifecycle block.
func (m *module) lifecycle(r *rendering, res *resource, b *hclsyntax.Body, i instance) error {
	for name, a := range b.Attributes {
		switch name {
		case "ignore_changes":
			list, diags := hcl.ExprList(a.Expr)
			if diags.HasErrors() {
				return diags
			}
			for _, e := range list {
				res.IgnoreChanges = append(res.IgnoreChanges, hcl.ExprAsKeyword(e))
			}
		case "prevent_destroy":
			value, diags := a.Expr.Value(nil)
			if diags.HasErrors() {
				return diags
			}
			res.PreventDestroy = value.True()
		default:
			return fmt.Errorf("lifecycle has %s", name)
		}
	}
	scope := map[string]cty.Value{"self": i.value}
	for name, value := range i.scope {
		scope[name] = value
	}
	return m.conditions(r, b, "postcondition", scope)
}

// references returns the addresses of depends_on. Each must exist.
func (m *module) references(b *hclsyntax.Body) ([]string, error) {
	a := b.Attributes["depends_on"]
	if a == nil {
		return nil, nil
	}
	list, diags := hcl.ExprList(a.Expr)
	if diags.HasErrors() {
		return nil, diags
	}
	var all []string
	for _, e := range list {
		t, diags := hcl.AbsTraversalForExpr(e)
		if diags.HasErrors() {
			return nil, diags
		}
		address := t.RootName() + "." + step(t, 1)
		if m.blocks[address] == nil {
			return nil, fmt.Errorf("depends_on %s, which the module does not have", address)
		}
		all = append(all, address)
	}
	return all, nil
}

// step returns the name of a step of a traversal, or nothing.
func step(t hcl.Traversal, i int) string {
	if i < len(t) {
		if a, ok := t[i].(hcl.TraverseAttr); ok {
			return a.Name
		}
	}
	return ""
}

// body returns the values of arguments and nested blocks.
func (m *module) body(b *hclsyntax.Body, scope map[string]cty.Value) (map[string]any, error) {
	all := map[string]any{}
	for name, a := range b.Attributes {
		if slices.Contains([]string{"count", "for_each", "depends_on"}, name) {
			continue
		}
		value, err := m.eval(a.Expr, scope)
		if err != nil {
			return nil, err
		}
		if value.IsNull() {
			continue
		}
		if all[name], err = plain(value); err != nil {
			return nil, err
		}
	}
	add := func(name string, b *hclsyntax.Body, scope map[string]cty.Value) error {
		nested, err := m.body(b, scope)
		list, _ := all[name].([]any)
		all[name] = append(list, any(nested))
		return err
	}
	for _, block := range b.Blocks {
		switch block.Type {
		case "lifecycle":
		case "dynamic":
			if err := m.dynamic(block, scope, add); err != nil {
				return nil, err
			}
		default:
			if err := add(block.Type, block.Body, scope); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// dynamic adds the blocks of a dynamic block.
func (m *module) dynamic(b *hclsyntax.Block, scope map[string]cty.Value, add func(string, *hclsyntax.Body, map[string]cty.Value) error) error {
	if len(b.Body.Blocks) != 1 || b.Body.Blocks[0].Type != "content" || b.Body.Attributes["for_each"] == nil || len(b.Body.Attributes) != 1 {
		return errors.New("a dynamic block needs for_each and content alone")
	}
	list, err := m.eval(b.Body.Attributes["for_each"].Expr, scope)
	if err != nil {
		return err
	}
	if !list.IsKnown() {
		return fmt.Errorf("for_each of dynamic %s is not known before apply", b.Labels[0])
	}
	for key, value := range list.Elements() {
		inner := map[string]cty.Value{b.Labels[0]: cty.ObjectVal(map[string]cty.Value{"key": key, "value": value})}
		for name, v := range scope {
			inner[name] = v
		}
		if err := add(b.Labels[0], b.Body.Blocks[0].Body, inner); err != nil {
			return err
		}
	}
	return nil
}

// plain returns a value as encoding/json decodes it.
func plain(value cty.Value) (any, error) {
	if !value.IsWhollyKnown() {
		return "known after apply", nil
	}
	text, err := ctyjson.Marshal(value, value.Type())
	if err != nil {
		return nil, err
	}
	var out any
	return out, json.Unmarshal(text, &out)
}
