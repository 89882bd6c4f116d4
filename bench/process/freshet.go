package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// FreshetVariable is the variable of the environment that names the program freshet.
const FreshetVariable = "FRESHET_BINARY"

// Freshet returns the path of the program freshet: FRESHET_BINARY if set, else the file freshet beside this executable, else the one in PATH.
func Freshet() (string, error) {
	if name := os.Getenv(FreshetVariable); name != "" {
		path, err := exec.LookPath(name)
		if err != nil {
			return "", fmt.Errorf("%s names no program: %w", FreshetVariable, err)
		}
		return path, nil
	}
	exe, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find own executable: %w", err)
	}
	beside := filepath.Join(filepath.Dir(exe), "freshet")
	if path, err := exec.LookPath(beside); err == nil {
		return path, nil
	}
	path, err := exec.LookPath("freshet")
	if err != nil {
		return "", fmt.Errorf("the program freshet is neither at %s nor in PATH: put it there, or set %s to its path", beside, FreshetVariable)
	}
	return path, nil
}
