package metadata

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

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
