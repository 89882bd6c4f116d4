package load

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
)

// Payloads are the values of messages; each message carries one of them, chosen at random. They may be shared.
type Payloads [][]byte

// ErrPayload says that a payload cannot be made as asked.
var ErrPayload = errors.New("payload")

// maxPoolBytes bounds the memory of a pool of payloads.
const maxPoolBytes = 4 << 30

// RandomPayloads makes count payloads of size bytes. The first ratio (0 to 1) of each is random, the rest is zeros, so
// that ratio is about what compression leaves; this is the OpenMessaging Benchmark's way.
func RandomPayloads(size int, ratio float64, count int) (Payloads, error) {
	switch {
	case size < 0:
		return nil, fmt.Errorf("%w: size of %d bytes, at least 0 is needed", ErrPayload, size)
	case !(ratio >= 0 && ratio <= 1):
		return nil, fmt.Errorf("%w: random ratio %v is not within 0 to 1", ErrPayload, ratio)
	case count < 1:
		return nil, fmt.Errorf("%w: pool of %d payloads, at least 1 is needed", ErrPayload, count)
	case int64(size)*int64(count) > maxPoolBytes:
		return nil, fmt.Errorf("%w: pool of %d payloads of %d bytes is above %d bytes", ErrPayload, count, size, int64(maxPoolBytes))
	}
	all := make([]byte, size*count)
	payloads := make(Payloads, count)
	for i := range payloads {
		payloads[i] = all[i*size : (i+1)*size : (i+1)*size]
		_, _ = rand.Read(payloads[i][:int(float64(size)*ratio)]) // never fails
	}
	return payloads, nil
}

// FilePayload gives the content of a file as the one payload; it must have size bytes.
func FilePayload(path string, size int) (Payloads, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read payload: %w", err)
	}
	if len(content) != size {
		return nil, fmt.Errorf("%w: %s has %d bytes, the message size is %d", ErrPayload, path, len(content), size)
	}
	return Payloads{content}, nil
}
