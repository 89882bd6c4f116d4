package recode_test

import (
	"encoding/binary"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/snappy"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/freshet-io/freshet/agent/recode"
	"github.com/freshet-io/freshet/kafkaproto"
)

// TestRecoder_SnappyOfConsumers: what Java's consumers and librdkafka could not read is not taken, and neither is a block that
// claims what it cannot be.
func TestRecoder_SnappyOfConsumers(t *testing.T) {
	all := records(200)
	extended := s2.Encode(nil, all)
	_, err := snappy.DecodeStrict(nil, extended)
	require.ErrorIs(t, err, snappy.ErrCorrupt, "else this is snappy")
	plain := snappy.Encode(nil, all)
	oldest := xerial(plain)
	binary.BigEndian.PutUint32(oldest[8:], 0)
	claim := func(n uint64) []byte { return append(binary.AppendUvarint(nil, n), plain[2:]...) }
	for name, tt := range map[string]struct {
		payload []byte
		taken   bool
	}{
		"plain block":            {plain, true},
		"stream":                 {xerial(plain), true},
		"plain block of S2":      {extended, false},
		"stream of S2":           {xerial(extended), false},
		"stream of version 0":    {oldest, false},
		"claims one more":        {claim(uint64(len(all)) + 1), false},
		"claims 200 MiB":         {claim(200 << 20), false},
		"claims 4 GiB":           {claim(1<<32 - 1), false},
		"stream claims 4 GiB":    {xerial(claim(1<<32 - 1)), false},
		"bytes after the block":  {append(plain[:len(plain):len(plain)], 0), false},
		"header of a stream cut": {oldest[:12], false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := apply(t.Context(), recode.New(recode.Config{}), header(kafkaproto.Snappy, 200, tt.payload), &recode.Rules{Keys: true})
			if tt.taken {
				require.NoError(t, err)
				return
			}
			var refused *kafkaproto.BatchError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, kerr.InvalidRecord, refused.Kafka)
		})
	}
}
