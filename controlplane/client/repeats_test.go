package client

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestRepeats_Bounds: an agent keeps maxRepeats answers, and none to a large request or of that size.
func TestRepeats_Bounds(t *testing.T) {
	require.Empty(t, repeatKey(&Forward{Key: int16(kmsg.SyncGroup), Body: []byte("body")}))
	require.Empty(t, repeatKey(&Forward{Key: int16(kmsg.Heartbeat), Body: make([]byte, maxRepeatBytes+1)}))
	versions := map[string]bool{}
	for _, f := range []Forward{{Body: []byte("b")}, {Version: 1, Body: []byte("b")}, {Principal: "p", Body: []byte("b")}, {Body: []byte("pb")}} {
		f.Key = int16(kmsg.Heartbeat)
		versions[repeatKey(&f)] = true
	}
	require.Len(t, versions, 4)

	var r repeats
	now := time.Now()
	r.keep("large", 0, make([]byte, maxRepeatBytes+1), now.Add(time.Hour))
	require.Empty(t, r.mu.answers)
	for i := range maxRepeats {
		r.keep(strconv.Itoa(i), 0, []byte{1}, now.Add(time.Hour))
	}
	body, _, _ := r.find("0", now)
	require.NotNil(t, body)
	r.keep("one more", 0, []byte{1}, now.Add(time.Hour))
	require.LessOrEqual(t, len(r.mu.answers), maxRepeats)
	body, _, _ = r.find("one more", now)
	require.NotNil(t, body)

	_, _, recalls := r.find(strings.Repeat("x", 9), now)
	r.recall()
	r.keep("late", recalls, []byte{1}, now.Add(time.Hour))
	require.Empty(t, r.mu.answers)
}
