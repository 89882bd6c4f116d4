package program

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/freshet-io/freshet/internal/config"
)

var flagName = regexp.MustCompile(`--[a-z][a-z-]*`)

// origins returns the variables and files that set the settings named in a line, such as " (from FRESHET_LINGER)". It returns ""
// if the command line set them all.
func origins(flags *pflag.FlagSet, line string) string {
	var from []string
	for _, name := range flagName.FindAllString(line, -1) {
		f := flags.Lookup(name[2:])
		if f == nil || config.Origin(f) == "" || slices.Contains(from, config.Origin(f)) {
			continue
		}
		from = append(from, config.Origin(f))
	}
	if len(from) == 0 {
		return ""
	}
	return " (from " + strings.Join(from, ", ") + ")"
}
