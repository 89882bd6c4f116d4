// Package cleantest holds one partition for tests of cleaning: its extents as the metadata would know them, its bundles
// in memory.
package cleantest
