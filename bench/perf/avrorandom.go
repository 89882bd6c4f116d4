package perf

import (
	"fmt"
	"math/rand/v2"

	"github.com/twmb/avro"
)

// randomAvro makes values of a schema, small as the tool's: strings of 3 to 15 letters, up to 16 bytes, up to 3 entries.
// Of a union it takes a branch that is not null.
type randomAvro struct {
	named map[string]*avro.SchemaNode // types met so far
}

// maxAvroDepth bounds types that contain themselves.
const maxAvroDepth = 32

func (r randomAvro) value(n *avro.SchemaNode, depth int) (any, error) {
	if depth > maxAvroDepth {
		return nil, fmt.Errorf("type %s is nested deeper than %d", n.Name, maxAvroDepth)
	}
	switch n.Type {
	case "record", "error":
		return r.record(n, depth)
	case "array":
		items := make([]any, rand.IntN(4))
		for i := range items {
			var err error
			if items[i], err = r.value(n.Items, depth+1); err != nil {
				return nil, err
			}
		}
		return items, nil
	case "map":
		entries := map[string]any{}
		for i := range rand.IntN(4) {
			v, err := r.value(n.Values, depth+1)
			if err != nil {
				return nil, err
			}
			entries[fmt.Sprintf("k%d", i)] = v
		}
		return entries, nil
	case "union":
		return r.union(n, depth)
	default:
		return r.scalar(n, depth)
	}
}

// remember keeps a type that has a name, for where it is used again.
func (r randomAvro) remember(n *avro.SchemaNode) {
	r.named[n.Name] = n
	if n.Namespace != "" {
		r.named[n.Namespace+"."+n.Name] = n
	}
}

func (r randomAvro) record(n *avro.SchemaNode, depth int) (any, error) {
	r.remember(n)
	fields := map[string]any{}
	for i := range n.Fields {
		v, err := r.value(&n.Fields[i].Type, depth+1)
		if err != nil {
			return nil, err
		}
		fields[n.Fields[i].Name] = v
	}
	return fields, nil
}

func (r randomAvro) union(n *avro.SchemaNode, depth int) (any, error) {
	var chosen []*avro.SchemaNode
	for i := range n.Branches {
		if n.Branches[i].Type != "null" {
			chosen = append(chosen, &n.Branches[i])
		}
	}
	if len(chosen) == 0 || depth > maxAvroDepth/2 && len(chosen) < len(n.Branches) {
		return nil, nil
	}
	return r.value(chosen[rand.IntN(len(chosen))], depth+1)
}

func (r randomAvro) scalar(n *avro.SchemaNode, depth int) (any, error) {
	switch n.Type {
	case "null":
		return nil, nil
	case "boolean":
		return rand.IntN(2) == 1, nil
	case "int":
		return rand.Int32(), nil
	case "long":
		return rand.Int64(), nil
	case "float":
		return rand.Float32(), nil
	case "double":
		return rand.Float64(), nil
	case "string":
		return randomString(3 + rand.IntN(13)), nil
	case "bytes":
		return []byte(randomString(1 + rand.IntN(16))), nil
	case "enum":
		r.remember(n)
		return n.Symbols[rand.IntN(len(n.Symbols))], nil
	case "fixed":
		r.remember(n)
		return []byte(randomString(n.Size)), nil
	}
	if known, ok := r.named[n.Type]; ok {
		return r.value(known, depth+1)
	}
	return nil, fmt.Errorf("unknown type %s", n.Type)
}
