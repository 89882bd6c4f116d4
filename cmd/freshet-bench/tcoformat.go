package main

import (
	"errors"

	"github.com/freshet-io/freshet/bench/tco"
	"github.com/freshet-io/freshet/internal/cli"
)

// chooseFormat sets the output format of --json and --csv, of which at most one may be given.
func chooseFormat(format *string, asJSON, asCSV bool) error {
	switch {
	case asJSON && asCSV:
		return &cli.UsageError{Message: "--json and --csv: give one of them"}
	case asJSON:
		*format = tco.FormatJSON
	case asCSV:
		*format = tco.FormatCSV
	}
	return nil
}

// usageError makes a fault in how the command was called of an error that is one of invalid.
func usageError(err, invalid error) error {
	if errors.Is(err, invalid) {
		return &cli.UsageError{Message: err.Error()}
	}
	return err
}
