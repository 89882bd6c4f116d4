// Package config turns command-line flags, FRESHET_* environment variables and a YAML file into the configuration
// structs of the parts. Flags are bound to struct fields by the commands; this package fills in what the command line
// left open.
//
// Precedence, highest first: flags, environment, file, defaults (the value a field had when it was bound).
//
// One name serves all three: the flag --flush-bytes is FRESHET_FLUSH_BYTES in the environment and flush-bytes in the
// file. Values are written alike everywhere; lists may also be YAML sequences. One file serves all commands of a program:
// each takes its own settings from it. A key of no command is an error. Faults are collected and reported together, each
// with where it stands. Environment variables that match no flag are left alone: container platforms
// put names of their own under any service's prefix.
package config
