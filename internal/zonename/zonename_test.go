package zonename_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/zonename"
)

func TestInClientIDs(t *testing.T) {
	for name, want := range map[string]bool{
		"": true, "eu-1a": true, "zürich": true, "a/b": true, "a=b": true, "rack 1": false, "a,b": false, "a;b": false, "a&b": false, "a\u00a0b": false,
	} {
		require.Equal(t, want, zonename.InClientIDs(name), "%q", name)
	}
}

func TestParse(t *testing.T) {
	for name, want := range map[string]string{
		"": "", " \n": "", "eu-1a": "eu-1a", "eu-1a\n": "eu-1a", " eu-1a\r\n": "eu-1a", "rack 1": "rack 1", "zürich": "zürich",
		strings.Repeat("x", 255) + " ": strings.Repeat("x", 255),
	} {
		got, err := zonename.Parse(name)
		require.NoError(t, err, "%q", name)
		require.Equal(t, want, got, "%q", name)
	}
	for _, name := range []string{"eu\n1a", "eu\x001a", "eu\t1a", "\xff", strings.Repeat("x", 256)} {
		_, err := zonename.Parse(name)
		require.ErrorIs(t, err, zonename.ErrInvalid, "%q", name)
	}
}
