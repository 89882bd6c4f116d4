//go:build !race

package edge

const poison = false
