package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// evaluated returns the rendering of a module of one file.
func evaluated(t *testing.T, text string, req request) (rendering, error) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.tf"), []byte(text), 0o600))
	in, err := json.Marshal(req)
	require.NoError(t, err)
	var out bytes.Buffer
	if err := run(dir, bytes.NewReader(in), &out); err != nil {
		return rendering{}, err
	}
	var r rendering
	return r, json.Unmarshal(out.Bytes(), &r)
}

// a variable with a list of zones.
const zones = `
variable "zones" {
  description = "Zones"
  type        = list(string)
  default     = ["a", "b"]

  validation {
    condition     = length(var.zones) > 0
    error_message = "zones: ${length(var.zones)}"
  }
}
`

// TestRun_Instances: count, for_each and dynamic blocks make instances, whose attributes have the address.
func TestRun_Instances(t *testing.T) {
	r, err := evaluated(t, zones+`
locals {
  groups = [for g in aws_security_group.one[*].id : g]
}

resource "aws_security_group" "one" {
  count = length(var.zones) > 1 ? 1 : 0

  description = null
}

resource "aws_lb" "zone" {
  for_each = toset(var.zones)

  name            = each.key
  security_groups = local.groups

  dynamic "subnet_mapping" {
    for_each = { x = 1 }

    content {
      subnet_id = "${subnet_mapping.key}-${each.value}"
    }
  }

  lifecycle {
    ignore_changes = [name]
  }

  depends_on = [aws_security_group.one]
}

output "names" {
  value = [for z in var.zones : aws_lb.zone[z].dns_name]
}
`, request{})
	require.NoError(t, err)
	require.Equal(t, map[string]resource{
		"aws_security_group.one[0]": {Type: "aws_security_group", Values: map[string]any{}},
		`aws_lb.zone["a"]`: {Type: "aws_lb", DependsOn: []string{"aws_security_group.one"}, IgnoreChanges: []string{"name"}, Values: map[string]any{
			"name": "a", "security_groups": []any{"<aws_security_group.one[0].id>"}, "subnet_mapping": []any{map[string]any{"subnet_id": "x-a"}},
		}},
		`aws_lb.zone["b"]`: {Type: "aws_lb", DependsOn: []string{"aws_security_group.one"}, IgnoreChanges: []string{"name"}, Values: map[string]any{
			"name": "b", "security_groups": []any{"<aws_security_group.one[0].id>"}, "subnet_mapping": []any{map[string]any{"subnet_id": "x-b"}},
		}},
	}, r.Resources)
	require.Equal(t, []any{`<aws_lb.zone["a"].dns_name>`, `<aws_lb.zone["b"].dns_name>`}, r.Outputs["names"])
}

// TestRun_Refuses: a failed validation leaves its message and no resources.
func TestRun_Refuses(t *testing.T) {
	r, err := evaluated(t, zones+"\nresource \"aws_ecs_cluster\" \"this\" {\n  name = \"a\"\n}\n", request{Variables: map[string]json.RawMessage{"zones": json.RawMessage("[]")}})
	require.NoError(t, err)
	require.Equal(t, []string{"zones: 0"}, r.Refused)
	require.Empty(t, r.Resources)
}

// TestRun_Errors: a mistake in the module is an error.
func TestRun_Errors(t *testing.T) {
	for name, tc := range map[string]struct {
		text, want string
		req        request
	}{
		"syntax":           {"resource {", "main.tf:1,", request{}},
		"format":           {"locals {\na = 1\n}\n", "is not formatted", request{}},
		"a loop":           {"locals {\n  a = local.b\n  b = local.a\n}\n\noutput \"a\" {\n  value = local.a\n}\n", "refers to itself", request{}},
		"no such local":    {"output \"a\" {\n  value = local.a\n}\n", "no local.a", request{}},
		"no such resource": {"output \"a\" {\n  value = aws_lb.a.arn\n}\n", "no aws_lb.a", request{}},
		"no such function": {"output \"a\" {\n  value = lengths([])\n}\n", "lengths", request{}},
		"an unset variable": {
			"variable \"a\" {\n  description = \"A\"\n  type        = string\n}\n\noutput \"a\" {\n  value = var.a\n}\n", "variable a has no value", request{},
		},
		"no description":               {"variable \"a\" {\n  type    = string\n  default = \"\"\n}\n\noutput \"a\" {\n  value = var.a\n}\n", "no description", request{}},
		"a variable that is not there": {zones, "the module has no variable a", request{Variables: map[string]json.RawMessage{"a": json.RawMessage("1")}}},
		"a wrong type":                 {zones, "variable zones", request{Variables: map[string]json.RawMessage{"zones": json.RawMessage(`{"a": 1}`)}}},
		"a resource twice":             {strings.Repeat("resource \"aws_ecs_cluster\" \"a\" {\n}\n", 2), "is there twice", request{}},
		"count of an ID": {
			"resource \"aws_security_group\" \"a\" {\n}\n\nresource \"aws_lb\" \"a\" {\n  count = aws_security_group.a.id == \"\" ? 1 : 0\n}\n",
			"count of aws_lb.a is not known before apply",
			request{Plan: true},
		},
		"depends_on nothing": {"resource \"aws_lb\" \"a\" {\n  depends_on = [aws_lb.b]\n}\n", "depends_on aws_lb.b", request{}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := evaluated(t, tc.text, tc.req)
			require.ErrorContains(t, err, tc.want)
		})
	}
}
