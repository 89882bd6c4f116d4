package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// body returns the content of all files of a directory. A file that is not formatted is an error.
func body(dir string) ([]*hclsyntax.Body, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.tf"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s has no Terraform files", dir)
	}
	var all []*hclsyntax.Body
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		file, diags := hclsyntax.ParseConfig(text, filepath.Base(path), hcl.InitialPos)
		if diags.HasErrors() {
			return nil, diags
		}
		if !bytes.Equal(hclwrite.Format(text), text) {
			return nil, fmt.Errorf("%s is not formatted: run terraform fmt", path)
		}
		all = append(all, file.Body.(*hclsyntax.Body))
	}
	return all, nil
}

// load parses the module in a directory.
func load(dir string) (*module, error) {
	m := &module{
		variables: map[string]*hclsyntax.Block{}, locals: map[string]hclsyntax.Expression{},
		outputs: map[string]*hclsyntax.Block{}, blocks: map[string]*hclsyntax.Block{},
		inputs: map[string]cty.Value{}, data: map[string]cty.Value{},
		values: map[string]cty.Value{}, resolving: map[string]bool{},
	}
	bodies, err := body(dir)
	if err != nil {
		return nil, err
	}
	for _, b := range bodies {
		for _, block := range b.Blocks {
			if err := m.add(block); err != nil {
				return nil, err
			}
		}
	}
	return m, nil
}

// add adds a block of a file.
func (m *module) add(b *hclsyntax.Block) error {
	put := func(into map[string]*hclsyntax.Block, name string) error {
		if into[name] != nil {
			return fmt.Errorf("%s: %s is there twice", b.TypeRange, name)
		}
		into[name] = b
		return nil
	}
	switch b.Type {
	case "terraform":
		return nil
	case "variable":
		return put(m.variables, b.Labels[0])
	case "output":
		return put(m.outputs, b.Labels[0])
	case "resource":
		return put(m.blocks, b.Labels[0]+"."+b.Labels[1])
	case "data", "ephemeral":
		return put(m.blocks, b.Type+"."+b.Labels[0]+"."+b.Labels[1])
	case "locals":
		for name, a := range b.Body.Attributes {
			if m.locals[name] != nil {
				return fmt.Errorf("%s: local.%s is there twice", a.NameRange, name)
			}
			m.locals[name] = a.Expr
		}
		return nil
	}
	return fmt.Errorf("%s: a block of type %s", b.TypeRange, b.Type)
}

// set sets the inputs.
func (m *module) set(req request) error {
	m.plan = req.Plan
	for name, text := range req.Variables {
		value, err := decode(text)
		if err != nil {
			return fmt.Errorf("variable %s: %w", name, err)
		}
		m.inputs[name] = value
	}
	for address, text := range req.Data {
		value, err := decode(text)
		if err != nil {
			return fmt.Errorf("data %s: %w", address, err)
		}
		m.data[address] = value
	}
	if req.Example != "" {
		if err := m.setExample(req.Example); err != nil {
			return err
		}
	}
	for name := range m.inputs {
		if m.variables[name] == nil {
			return fmt.Errorf("the module has no variable %s", name)
		}
	}
	return nil
}

// setExample sets the variables to the arguments of the one module block of a configuration.
func (m *module) setExample(dir string) error {
	bodies, err := body(dir)
	if err != nil {
		return err
	}
	found := 0
	for _, b := range bodies {
		for _, block := range b.Blocks {
			if block.Type != "module" {
				continue
			}
			found++
			for name, a := range block.Body.Attributes {
				value, diags := a.Expr.Value(nil)
				if diags.HasErrors() {
					return diags
				}
				if name != "source" {
					m.inputs[name] = value
				}
			}
		}
	}
	if found != 1 {
		return fmt.Errorf("%s has %d module blocks", dir, found)
	}
	return nil
}

func decode(text json.RawMessage) (cty.Value, error) {
	t, err := ctyjson.ImpliedType(text)
	if err != nil {
		return cty.NilVal, err
	}
	return ctyjson.Unmarshal(text, t)
}
