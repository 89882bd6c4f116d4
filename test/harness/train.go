package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// trainLimit bounds each of train's two steps.
const trainLimit = 5 * time.Minute

// What train leaves in its directory.
const (
	archiveName = "classes.jsa"
	storageName = "storage"
)

// train prepares what makes JVMs start with half of the work: an archive of the classes that brokers and clients load,
// parsed and verified, and a log directory that is formatted already. It takes as long as five brokers to start.
func (j java) train(dir, bootstrap, controller string) error {
	storage, used := filepath.Join(dir, storageName), filepath.Join(dir, "used")
	config, err := kafkaConfig(dir, storage, bootstrap, controller)
	if err != nil {
		return err
	}
	if err := j.format(config); err != nil {
		return err
	}
	if err := os.CopyFS(used, os.DirFS(storage)); err != nil {
		return err
	}
	if config, err = kafkaConfig(dir, used, bootstrap, controller); err != nil {
		return err
	}
	j.options = append(j.options, "-XX:ArchiveClassesAtExit="+filepath.Join(dir, archiveName))
	if err := j.toEnd("Train", config, bootstrap); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	return os.RemoveAll(used)
}

// format formats the log directory of a server.properties.
func (j java) format(config string) error {
	if err := j.toEnd("kafka.tools.StorageTool", "format", "--cluster-id", "AAAAAAAAAAAAAAAAAAAAAA", "--config", config); err != nil {
		return fmt.Errorf("format: %w", err)
	}
	return nil
}

// toEnd runs a main class to its end.
func (j java) toEnd(class string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), trainLimit)
	defer cancel()
	if out, err := exec.CommandContext(ctx, j.program, j.args(class, args...)...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}
