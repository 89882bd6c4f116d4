// Command write writes the generated pages of documentation into the directory given.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/freshet-io/freshet/internal/docs"
)

func main() {
	for name, content := range docs.Pages() {
		if err := os.WriteFile(filepath.Join(os.Args[1], name), []byte(content), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
