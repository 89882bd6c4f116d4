package cli

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStall_TellsOfErrorsThatLast(t *testing.T) {
	var s stall
	begin, broken := time.UnixMilli(0), errors.New("broken")
	at := func(d time.Duration, err error) error { return s.note(err, begin.Add(d), 10*time.Second) }
	require.NoError(t, at(0, broken))
	require.NoError(t, at(5*time.Second, nil), "silence is no error")
	require.NoError(t, at(9*time.Second, broken))
	err := at(10*time.Second, broken)
	require.ErrorIs(t, err, broken)
	require.EqualError(t, err, "nothing could be read for 10 s: broken")
	require.NoError(t, at(19*time.Second, broken), "said once in that time")
	require.Error(t, at(20*time.Second, broken))
}
