//go:build !race

package requests

// race tells that the race detector watches.
const race = false
