package session

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// bytesOfSessions bounds the bytes of the sessions of a virtual cluster of etcd, as docs/limits.md has them.
type bytesOfSessions struct{ state, snapshot int64 }

var (
	bytesOfOpen = bytesOfSessions{5 << 20, 3 << 20}
	bytesOfAll  = bytesOfSessions{52 << 20, 28 << 20} // those closed within ten minutes too
)

// longest returns a command with texts at all bounds of Hello.
func longest(session, zone int) *metadata.OpenSession {
	c := &metadata.OpenSession{
		Instance: fmt.Sprintf("%0*d", maxHelloText, session), Zone: fmt.Sprintf("%0*d", maxHelloText, zone),
		Version: strings.Repeat("v", maxHelloText), Peer: strings.Repeat("p", maxHelloText), Roles: metadata.RoleProduce,
	}
	each := (maxHelloTexts - 4*maxHelloText) / maxEndpoints
	for i := range maxEndpoints {
		c.Endpoints = append(c.Endpoints, metadata.Endpoint{Listener: fmt.Sprint(i % 10), Host: strings.Repeat("h", each-1), Port: 9092})
	}
	return c
}

// TestHello_BytesOfTheState: the sessions of a virtual cluster take a bounded part of its state and its snapshots, also if agents open and
// close as many as they may for as long as the state has closed ones.
func TestHello_BytesOfTheState(t *testing.T) {
	const sessions, minutes = 256, 10 // controlplane.maxStoredSessions; see metadata.SessionInfo.Closed
	s := metadata.New()
	index, began := uint64(0), time.Now()
	apply := func(after time.Duration, commands ...metadata.Command) {
		index++
		s.Apply(index, &metadata.Batch{Now: began.Add(after).UnixMilli(), Commands: commands}, nil, nil)
	}
	check := func(most bytesOfSessions) {
		t.Helper()
		var snapshot bytes.Buffer
		require.NoError(t, s.Encode(&snapshot))
		load := s.Load()
		t.Logf("%d bytes of state, %d of snapshot", load.MemoryBytes(), snapshot.Len())
		require.Less(t, load.MemoryBytes(), most.state)
		require.Less(t, int64(snapshot.Len()), most.snapshot)
	}
	for i := range sessions {
		apply(0, longest(i, i%maxZones))
	}
	require.Greater(t, s.Load().TopicsAndGroups, int64(sessions*maxHelloTexts), "the state's memory counts them")
	check(bytesOfOpen)
	next := sessions // as many are open; their agents close them and open others at once
	for minute := range minutes + 1 {
		for range sessions {
			apply(time.Duration(minute)*time.Minute, &metadata.CloseSession{Session: id.Session(next - sessions + 1)}, longest(next, next%maxZones))
			next++
		}
	}
	check(bytesOfAll)
	for range sessions {
		apply((minutes+1)*time.Minute, &metadata.CloseSession{Session: id.Session(next - sessions + 1)})
		next++
	}
	apply(2*minutes*time.Minute+2*time.Minute, &metadata.Tick{})
	check(bytesOfOpen) // zones are remembered for a day, by one session each
}
