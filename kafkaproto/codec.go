package kafkaproto

// Codec is a compression codec as numbered in a batch's attributes.
type Codec int8

// Kafka's codecs.
const (
	NoCodec Codec = 0
	Gzip    Codec = 1
	Snappy  Codec = 2
	LZ4     Codec = 3
	Zstd    Codec = 4
)

// codecNames are the values of compression.type, by codec.
var codecNames = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

// String names the codec as compression.type does.
func (c Codec) String() string {
	if c < 0 || int(c) >= len(codecNames) {
		return "unknown"
	}
	return codecNames[c]
}

// ParseCodec reads a value of compression.type: a codec's name or "uncompressed". "producer" names no codec.
func ParseCodec(name string) (Codec, bool) {
	if name == "uncompressed" {
		return NoCodec, true
	}
	for c, n := range codecNames {
		if n == name {
			return Codec(c), true
		}
	}
	return NoCodec, false
}
