// Package access is the file by which `freshet dev` lets commands on the same machine, run by the same user, reach its
// control plane: <data dir>/operator.json. Its key lives as long as the process.
package access

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// DefaultDir is the data directory of `freshet dev` that is given none.
const DefaultDir = "./data"

// file is its name in the data directory.
const file = "operator.json"

// Access is where the control plane answers operators, and what opens it.
type Access struct {
	URL            string `json:"url"`
	VirtualCluster string `json:"virtual_cluster"`
	Key            string `json:"key"`
}

// Write replaces the file; only its owner can read it.
func (a Access) Write(dataDir string) error {
	p, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("write access file: %w", err)
	}
	f, err := os.CreateTemp(dataDir, file+".") // mode 0600
	if err != nil {
		return fmt.Errorf("write access file: %w", err)
	}
	_, err = f.Write(p)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dataDir, file))
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("write access file: %w", err)
	}
	return nil
}

// Read reads the file.
func Read(dataDir string) (a Access, err error) {
	p, err := os.ReadFile(filepath.Join(dataDir, file))
	if err != nil {
		return a, fmt.Errorf("read access file (does freshet dev run on this directory?): %w", err)
	}
	if err := json.Unmarshal(p, &a); err != nil {
		return a, fmt.Errorf("read access file: %w", err)
	}
	return a, nil
}
