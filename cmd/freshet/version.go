package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the build (-X main.version).
var version string

// versionString is the version to show: the build's, else the source revision the toolchain noted, else "dev".
func versionString() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value[:min(12, len(s.Value))]
			}
		}
	}
	return "dev"
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
