package id

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBundle_NamesItsSubmission(t *testing.T) {
	for _, s := range []Submission{{1, 1}, {1<<32 - 1, 1<<32 - 1}, {7, 0}, {}} {
		require.Equal(t, s, s.Bundle().Submission())
	}
	require.Equal(t, "3/9", Submission{3, 9}.Bundle().String())
	require.Less(t, Submission{1, 1<<32 - 1}.Bundle(), Submission{2, 1}.Bundle(), "bundles of a session stay together")
}

func TestParseBundle(t *testing.T) {
	for _, b := range []Bundle{Submission{1, 1}.Bundle(), Submission{1<<32 - 1, 1<<32 - 1}.Bundle()} {
		got, err := ParseBundle(b.String())
		require.NoError(t, err)
		require.Equal(t, b, got)
	}
	for _, name := range []string{"", "1", "1/", "/1", "0/1", "1/0", "1/2/3", "-1/1", "4294967296/1", "1/4294967296", " 1/1"} {
		_, err := ParseBundle(name)
		require.ErrorContains(t, err, "is not a bundle", "%q", name)
	}
}

func TestTopicPartition_Compare(t *testing.T) {
	a := TopicPartition{Topic{1}, 5}
	require.Zero(t, a.Compare(a))
	require.Negative(t, a.Compare(TopicPartition{Topic{1}, 6}))
	require.Positive(t, a.Compare(TopicPartition{Topic{0, 255}, 9}))
	require.Equal(t, "01000000000000000000000000000000-5", a.String())
}
