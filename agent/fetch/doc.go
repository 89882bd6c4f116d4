// Package fetch answers reads: it plans from the partition views, waits for what is not there yet, takes the bytes
// from the cache and encodes the Fetch response around them. See DESIGN.md beside it.
package fetch
