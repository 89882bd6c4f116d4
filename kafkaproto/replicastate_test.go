package kafkaproto

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestCheckBody_TaggedStructsOfEveryVersion: kmsg reads ReplicaState, a struct in a tagged field, in every flexible
// version, not only in those that have it. Its count of tagged fields must be checked in all of them.
func TestCheckBody_TaggedStructsOfEveryVersion(t *testing.T) {
	for version := int16(12); version <= 18; version++ {
		in := kmsg.NewPtrFetchRequest()
		in.SetVersion(version)
		body := in.AppendTo(nil)
		state := append(make([]byte, 12), 0xff, 0xff, 0xff, 0xff, 0x0f)
		whole := append(append(body[:len(body)-1:len(body)-1], 1, 1, byte(len(state))), state...)
		_, err := CheckBody(1, version, whole) // not DecodeBody, which counts to 2^32 if this lets it
		require.ErrorIs(t, err, ErrMalformed, "version %d", version)
	}
}
