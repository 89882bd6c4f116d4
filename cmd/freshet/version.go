package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the build (-X main.version).
var version string

// versionString returns the version that the linker set, or else the version in the build info.
func versionString() string {
	info, _ := debug.ReadBuildInfo()
	return cmp.Or(version, buildVersion(info))
}

// revisionChars is how many characters of a source revision are shown.
const revisionChars = 12

// buildVersion returns the version of the main module, or else the source revision, with "-dirty" if the source was
// modified. It returns "dev" if info has neither, and if info is nil.
func buildVersion(info *debug.BuildInfo) string {
	if info == nil {
		return "dev"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	var revision, suffix string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(revisionChars, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			suffix = "-dirty"
		}
	}
	if revision == "" {
		return "dev"
	}
	return revision + suffix
}

func versionLine() string {
	return fmt.Sprintf("freshet %s %s %s/%s", versionString(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func newVersion(p process) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Show the version", Args: takes(0, 0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(p.streams.Out, versionLine())
			return err
		},
	}
}
