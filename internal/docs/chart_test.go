package docs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChart_RefusesValuesItCannotDescribe(t *testing.T) {
	for says, c := range map[string]struct {
		values string
		types  map[string]schema
	}{
		"a.b has no comment":                       {"# A.\na:\n  b: 1\n", nil},
		"the default of a does not tell its type":  {"# A.\na: []\n", nil},
		"the type of b belongs to no value":        {"# A.\na: 1\n", map[string]schema{"b": oneOf(1)}},
		"values.yaml is not a map":                 {"[]", nil},
		"the default of a.b does not tell its typ": {"# A.\na:\n  # B.\n  b: null\n", nil},
	} {
		_, err := chartFiles([]byte(c.values), c.types)
		require.ErrorContains(t, err, says)
	}
}

func TestChart_ClosesMaps(t *testing.T) {
	files, err := chartFiles([]byte("# A.\na:\n  # B.\n  b: x|y\n# C.\nc: {}\n"), map[string]schema{"c": freeMap(pattern("."))})
	require.NoError(t, err)
	require.Contains(t, files["README.md"], "| `a` |  | A. |\n| `a.b` | `x\\|y` | B. |\n| `c` | `{}` | C. |\n")
	require.JSONEq(t, `{
		"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "additionalProperties": false,
		"properties": {
			"global": {"type": "object"},
			"enabled": {"type": "boolean"},
			"a": {"type": "object", "additionalProperties": false, "description": "A.", "properties": {"b": {"type": "string", "description": "B."}}},
			"c": {"type": "object", "description": "C.", "additionalProperties": {"type": "string", "pattern": "."}}
		}}`, files["values.schema.json"])
}
