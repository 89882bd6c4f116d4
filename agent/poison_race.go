//go:build race

package agent

// poison overwrites released record memory, so that the race detector and checksums find who still reads it.
const poison = true
