// Package lint holds the rules of this repository that a linter does not know, as tests: which package may import
// which (with the reason), that every package says what it is for, that exceptions carry their reason, and that tests
// wait for what they wait for.
package lint
