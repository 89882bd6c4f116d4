package main

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// functions are the functions of Terraform that the module uses.
var functions = map[string]function.Function{
	"alltrue":      allTrue,
	"base64encode": base64Encode,
	"can":          tryfunc.CanFunc,
	"cidrnetmask":  cidrNetmask,
	"cidrsubnet":   cidrSubnet,
	"coalesce":     stdlib.CoalesceFunc,
	"compact":      stdlib.CompactFunc,
	"concat":       stdlib.ConcatFunc,
	"contains":     stdlib.ContainsFunc,
	"distinct":     stdlib.DistinctFunc,
	"floor":        stdlib.FloorFunc,
	"join":         stdlib.JoinFunc,
	"jsonencode":   stdlib.JSONEncodeFunc,
	"keys":         stdlib.KeysFunc,
	"length":       stdlib.LengthFunc,
	"merge":        stdlib.MergeFunc,
	"range":        stdlib.RangeFunc,
	"regex":        stdlib.RegexFunc,
	"setproduct":   stdlib.SetProductFunc,
	"startswith":   startsWith,
	"toset":        stdlib.MakeToFunc(cty.Set(cty.DynamicPseudoType)),
	"tostring":     stdlib.MakeToFunc(cty.String),
	"try":          tryfunc.TryFunc,
}

var allTrue = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "list", Type: cty.List(cty.Bool)}},
	Type:   function.StaticReturnType(cty.Bool),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		for _, v := range args[0].Elements() {
			if v.IsNull() || v.False() {
				return cty.False, nil
			}
		}
		return cty.True, nil
	},
})

var base64Encode = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "string", Type: cty.String}},
	Type:   function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		return cty.StringVal(base64.StdEncoding.EncodeToString([]byte(args[0].AsString()))), nil
	},
})

var startsWith = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "string", Type: cty.String}, {Name: "prefix", Type: cty.String}},
	Type:   function.StaticReturnType(cty.Bool),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		return cty.BoolVal(strings.HasPrefix(args[0].AsString(), args[1].AsString())), nil
	},
})

// cidrNetmask takes IPv4 networks alone, as Terraform's.
var cidrNetmask = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "prefix", Type: cty.String}},
	Type:   function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		prefix, err := netip.ParsePrefix(args[0].AsString())
		if err != nil {
			return cty.NilVal, err
		}
		if !prefix.Addr().Is4() {
			return cty.NilVal, fmt.Errorf("%s is not an IPv4 network", prefix)
		}
		return cty.StringVal(net.IP(net.CIDRMask(prefix.Bits(), 32)).String()), nil
	},
})

// cidrSubnet takes no further bits: cidrsubnet(prefix, 0, 0) is the network without host bits.
var cidrSubnet = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "prefix", Type: cty.String}, {Name: "newbits", Type: cty.Number}, {Name: "netnum", Type: cty.Number}},
	Type:   function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		prefix, err := netip.ParsePrefix(args[0].AsString())
		if err != nil {
			return cty.NilVal, err
		}
		if !args[1].RawEquals(cty.Zero) || !args[2].RawEquals(cty.Zero) {
			return cty.NilVal, fmt.Errorf("cidrsubnet of %s with further bits", prefix)
		}
		return cty.StringVal(prefix.Masked().String()), nil
	},
})
