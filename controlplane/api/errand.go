package api

import "strings"

// MaxErrandError is the maximum length in bytes of an error text in an ErrandDone. The agent and the owner cut longer ones.
const MaxErrandError = 512

// CutErrandError returns the start of an error text, as valid UTF-8.
func CutErrandError(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), MaxErrandError)], "\uFFFD")
}
