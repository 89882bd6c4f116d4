//go:build !race

package agent

const poison = false
