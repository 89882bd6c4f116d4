// Command write writes the generated pages of documentation into the directory given.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/freshet-io/freshet/internal/docs"
)

func main() {
	pages := docs.Pages()
	metrics, err := docs.Metrics(filepath.Dir(os.Args[1]))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	pages["metrics.md"] = metrics
	for name, content := range pages {
		if err := os.WriteFile(filepath.Join(os.Args[1], name), []byte(content), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
