package metadata

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHideSession_Codec: the bytes are kept for ever.
func TestHideSession_Codec(t *testing.T) {
	for _, c := range []struct {
		command *HideSession
		golden  string
	}{
		{&HideSession{Session: 300, Hidden: true}, "\xac\x02\x01"},
		{&HideSession{Session: 1}, "\x01\x00"},
	} {
		require.Equal(t, c.golden, string(c.command.appendBody(nil)))
		b := &Batch{Commands: []Command{c.command}}
		parsed, err := ParseBatch(AppendBatch(nil, b))
		require.NoError(t, err)
		require.Equal(t, b.Commands, parsed.Commands)
	}
}

func TestHidden_InSnapshots(t *testing.T) {
	s := newMachine()
	s.Apply(1, &Batch{Commands: []Command{openInZone(0), openInZone(1), &HideSession{Session: 1, Hidden: true}}}, nil, nil)
	var buf bytes.Buffer
	require.NoError(t, s.Encode(&buf))
	restored, err := decode(&buf)
	require.NoError(t, err)
	info, _ := restored.Session(1)
	require.True(t, info.Hidden)
}

func openInZone(i int) *OpenSession {
	return &OpenSession{Instance: fmt.Sprint(i), Zone: "a", Endpoints: slices.Repeat([]Endpoint{{Host: "h", Port: 9092}}, 4)}
}
