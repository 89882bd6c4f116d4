package tco

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExpr_TextAndValueAgree(t *testing.T) {
	for _, c := range []struct {
		e           Expr
		text, value string
	}{
		{num("6", "").times(num("0.7017", ""), num("720", "h")), "6 x 0.7017 x 720 h", "3031.344"},
		{num("1", "").plus(num("2", "")).times(num("3", "")), "(1 + 2) x 3", "9"},
		{num("1", "").plus(num("2", "").times(num("3", ""))), "1 + 2 x 3", "7"},
		{num("12", "").over(num("2", "").times(num("3", ""))), "12 / (2 x 3)", "2"},
		{num("10", "").minus(num("1", "").plus(num("2", ""))), "10 - (1 + 2)", "7"},
		{most(num("4", "/s"), num("8", "").over(num("3", ""))), "max(4/s, 8 / 3)", "4"},
		{rounded(1234567.891, 1, "MiB"), "1,234,567.9 MiB", "1234567.9"},
	} {
		require.Equal(t, c.text, c.e.text)
		require.Equal(t, c.value, c.e.value.String(), c.text)
	}
}

func TestExpr_DivisionDoesNotDrift(t *testing.T) {
	third := num("0.004", "").over(num("3", ""))
	require.Equal(t, "6912", third.times(num("2", ""), num("2592000", "")).value.Round(12).String())
}

func TestGrouped(t *testing.T) {
	for in, want := range map[string]string{"0": "0", "999": "999", "1000": "1,000", "-1234567.5": "-1,234,567.5", "0.0000004": "0.0000004"} {
		require.Equal(t, want, grouped(in))
	}
}
