package catchup

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Config is one run.
type Config struct {
	Backlog   int64         // bytes of values; default 4 GiB
	Rate      int64         // bytes/s produced while measuring; default 20 MiB/s
	Groups    int           // that read the backlog; default 3
	Gap       time.Duration // between their starts; default 30 s
	GroupRate int64         // bytes/s that a group reads at most; 0 for no bound; default 120 MiB/s
	Pairs     int           // of turns without and with groups; default 5
	Duration  time.Duration // of a turn without groups, and the least of one with; default 1 min
	WarmUp    time.Duration // at the beginning of a turn, not measured; default 5 s
	Settle    time.Duration // bound of the wait for compaction; 0: the backlog is read as it was written; default 10 min
	// CompactAfter is the age at which the newest bundles are compacted, few as they are: the backlog's, when no more come.
	// Default 30 s, later than a steady rate has enough of them.
	CompactAfter time.Duration
	Partitions   int       // default 8
	RecordBytes  int       // default 4 KiB
	Memory       string    // limit of the agent; default 1GiB
	Model        string    // of the object store; default s3-standard
	Out          io.Writer // default: standard output
}

// ApplyDefaults fills what is zero, but for what zero means something.
func (c *Config) ApplyDefaults() {
	c.Backlog = cmp.Or(c.Backlog, 4<<30)
	c.Rate = cmp.Or(c.Rate, 20<<20)
	c.Groups = cmp.Or(c.Groups, 3)
	c.Gap = cmp.Or(c.Gap, 30*time.Second)
	c.Pairs = cmp.Or(c.Pairs, 5)
	c.Duration = cmp.Or(c.Duration, time.Minute)
	c.WarmUp = cmp.Or(c.WarmUp, 5*time.Second)
	c.CompactAfter = cmp.Or(c.CompactAfter, 30*time.Second)
	c.Partitions = cmp.Or(c.Partitions, 8)
	c.RecordBytes = cmp.Or(c.RecordBytes, 4<<10)
	c.Memory = cmp.Or(c.Memory, "1GiB")
	c.Model = cmp.Or(c.Model, "s3-standard")
	if c.Out == nil {
		c.Out = os.Stdout
	}
}

// Default is what the command starts from.
func Default() Config {
	c := Config{GroupRate: 120 << 20, Settle: 10 * time.Minute}
	c.ApplyDefaults()
	return c
}

// Validate gives all faults at once. Call it after ApplyDefaults.
func (c *Config) Validate() error {
	var errs []error
	if c.Backlog < int64(c.RecordBytes) || c.RecordBytes < stampBytes {
		errs = append(errs, fmt.Errorf("backlog of %d bytes in records of %d: want a record, of %d bytes, at least",
			c.Backlog, c.RecordBytes, stampBytes))
	}
	if c.Rate < 1 || c.GroupRate < 0 || c.Groups < 1 || c.Pairs < 1 || c.Partitions < 1 {
		errs = append(errs, errors.New("rates, groups, pairs and partitions must be positive"))
	}
	if c.Gap < 0 || c.Duration <= 0 || c.WarmUp < 0 || c.Settle < 0 || c.WarmUp >= c.Duration {
		errs = append(errs, errors.New("times must be positive, and the warm-up shorter than a turn"))
	}
	return errors.Join(errs...)
}
