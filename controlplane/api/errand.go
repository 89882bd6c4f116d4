package api

import "strings"

// MaxErrandError is the maximum length in bytes of an error text in an ErrandDone. The agent and the owner cut longer ones.
const MaxErrandError = 512

// MaxErrandKeys is the maximum number of keys that an agent lists for one errand. Odd keys and young uploads of an answer are no more.
const MaxErrandKeys = 10_000

// CutErrandError returns the first MaxErrandError bytes of an error text as valid UTF-8. A message with other bytes could not be sent.
func CutErrandError(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), MaxErrandError)], "?")
}
