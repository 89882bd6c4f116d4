// Package access is the file by which commands on the same machine, run by the same user, find a `freshet dev`:
// <data dir>/operator.json. Its key lives as long as the process.
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

// Access has the addresses of a `freshet dev`, and the key to its control plane.
type Access struct {
	Kafka          string `json:"kafka"` // host:port for Kafka clients
	URL            string `json:"url"`   // of the control plane, for operators
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
