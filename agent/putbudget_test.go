package agent

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConfig_PutBudgetFollowsTheStore(t *testing.T) {
	for _, c := range []struct {
		url    string
		set    float64
		want   float64
		reason string
	}{
		{"file:///data", 0, 50, "directory"},
		{"s3://bucket?endpoint=http%3A%2F%2Fminio%3A9000", 0, 50, "private network"},
		{"s3://bucket?region=eu-west-1", 0, 4, "AWS"},
		{"s3://bucket--use1-az4--x-s3?region=us-east-1", 0, 4, "Express"},
		{"s3://bucket?endpoint=https%3A%2F%2Fs3.example.com", 0, 4, "s3.example.com is public"},
		{"s3://bucket?region=eu-west-1", 16, 16, "--put-budget"},
		{"file:///data", 0.5, 0.5, "--put-budget"},
	} {
		cfg := Config{BucketURL: c.url, PutBudget: c.set}
		cfg.ApplyDefaults()
		rate, reason := cfg.EffectivePutBudget()
		require.InDelta(t, c.want, rate, 0, c.url)
		require.Contains(t, reason, c.reason)
	}
}
