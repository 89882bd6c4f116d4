package generation_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/generation"
)

func TestCheck(t *testing.T) {
	require.NoError(t, generation.Check(generation.Number))
	err := generation.Check(1)
	require.ErrorIs(t, err, generation.ErrOther)
	require.ErrorContains(t, err, "another generation: it is 1, this program reads 107: run the program that wrote it")
}
