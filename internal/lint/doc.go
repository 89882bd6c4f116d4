// Package lint holds the rules of this repository that a linter does not know, as tests: allowed imports (with the
// reason), package comments, reasons for exceptions, no sleeping tests, the wording of comments, citations and links.
package lint
