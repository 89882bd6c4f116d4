// Command write writes the generated pages of documentation, and the generated files of the chart, into the source tree given.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/freshet-io/freshet/internal/docs"
)

func main() {
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(root string) error {
	files, err := docs.Files(root)
	if err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}
