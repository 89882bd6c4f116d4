// Package timing holds the end-to-end tests that measure times, or fail where other work keeps processes waiting: they
// have the machine for themselves. `-args -bounds` fails where a time exceeds its bound. The others are in package e2e.
package timing
