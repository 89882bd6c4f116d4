package program

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/freshet-io/freshet/internal/cli"
)

// Version returns the version that the linker set (-X main.version), or else the version in the build info.
func Version(linked string) string {
	info, _ := debug.ReadBuildInfo()
	return cmp.Or(linked, buildVersion(info))
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

// versionCommand returns the command that shows the version of a program.
func (p Program) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "version", Short: "Show the version", Args: Takes(0, 0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			if p.Streams.Format == cli.FormatJSON {
				return p.Streams.WriteJSON(map[string]string{
					"program": p.Name, "version": p.Version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
				})
			}
			_, err := fmt.Fprintln(p.Streams.Out, p.versionLine())
			return err
		},
	}
	BindFormat(cmd.Flags(), &p)
	return cmd
}

func (p Program) versionLine() string {
	return fmt.Sprintf("%s %s %s %s/%s", p.Name, p.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
