package owner

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/metalog"
)

// Config configures an Owner.
type Config struct {
	Tenure metalog.Tenure
	// State is the state after the last complete command up to the tenure's tail. The owner alone uses it until Run has returned.
	State *metadata.State
	// First are proposed before all other commands. Their results are discarded. A full log refuses them like others.
	First []metadata.Command
	// Marked is called on the apply goroutine for each CheckHash command with index 0, which marks the place of a snapshot in the log. Its
	// argument is the state there. Checked is called with every other CheckHash.
	Marked  func(index uint64, snapshot *metadata.State)
	Checked func(metadata.CheckHash)

	GroupBytes    int   // maximum encoded bytes of commands appended together: 255 KiB
	GroupCommands int   // maximum number of commands appended together: 4096
	CommandBytes  int   // maximum encoded bytes of a command: 16 MiB
	QueueBytes    int64 // maximum encoded bytes of unanswered proposals, plus proposalOverhead each: 64 MiB
	SoftLogBytes  int64 // untrimmed bytes of the log from which groups are delayed: 256 MiB
	HardLogBytes  int64 // untrimmed bytes of the log at which commands are refused: 512 MiB
	// LogRoom returns the share of SoftLogBytes and HardLogBytes that the log may take now, from 0 to 1. It falls while the store of logs is
	// nearly full. Default 1.
	LogRoom func() float64
	// ReserveRoom reserves room for the commands of a group in the store of logs, or returns false if there is none. The owner calls done once the
	// append of the group has ended. Of a group without room, the owner asks again for the first commands, of up to SmallGroupBytes together, and
	// refuses the others as by a full log. Default: there is always room.
	ReserveRoom func(bytes int64) (done func(), ok bool)
	MaxDelay    time.Duration // delay of a group just below HardLogBytes, and of a commit at a bound of the state: 1 s
	MaxExtents  int64         // live extents at which commits are refused; from 3/4 on, commits are delayed: 4 Mi
	MaxFresh    int           // live bundles not compacted yet, with the same effects: 100,000
	// MaxBytes bounds the memory of the state (metadata.Load.MemoryBytes) and of commands in flight (metadata.GrowthOf). Half of it is
	// for topic and group metadata: topics, configs, groups, offsets and transactions (metadata.Load.TopicsAndGroups). Beyond the half, new
	// topics, groups and transactional IDs are refused. At 9/16, the growth of existing ones is refused. From 3/4 of the memory that topic
	// and group metadata leaves, commits are delayed. At MaxBytes, commits, new topics and partitions are refused, and at 9/8 of MaxBytes
	// every other growth. Configs of retention of topics are refused at 5/4, and configs of brokers never. 0 means no bound.
	MaxBytes int64
	// MemoryRoom returns two factors of MaxBytes, from 0 to 1. forNew lowers the bound of commits, of markers, and of new topics, groups and
	// transactional IDs. It falls while the memory of the process is nearly full. forExisting lowers the bound of the growth of existing groups and
	// transactional IDs. It is 1 until the memory is full. The bound of configs of retention stays MaxBytes. Default 1 and 1.
	MemoryRoom func() (forNew, forExisting float64)
	MaxWait    time.Duration // maximum wait of a command while groups are delayed; beyond, it is refused as by a full log: 10 s

	Now        func() time.Time      // command time; default time.Now
	Logger     *zap.Logger           // default: none
	Registerer prometheus.Registerer // default: a private one
}

// ApplyDefaults sets the fields that are zero.
func (c *Config) ApplyDefaults() {
	c.GroupBytes = cmp.Or(c.GroupBytes, metalog.DefaultEntryBytes-1<<10) // with the batch's header one entry, not two
	c.GroupCommands = cmp.Or(c.GroupCommands, 4096)
	c.CommandBytes = cmp.Or(c.CommandBytes, 16<<20)
	c.QueueBytes = cmp.Or(c.QueueBytes, 64<<20)
	c.SoftLogBytes = cmp.Or(c.SoftLogBytes, 256<<20)
	c.HardLogBytes = cmp.Or(c.HardLogBytes, 512<<20)
	c.MaxDelay = cmp.Or(c.MaxDelay, time.Second)
	c.MaxExtents = cmp.Or(c.MaxExtents, 4<<20)
	c.MaxFresh = cmp.Or(c.MaxFresh, 100_000)
	c.MaxWait = cmp.Or(c.MaxWait, 10*time.Second)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.LogRoom == nil {
		c.LogRoom = func() float64 { return 1 }
	}
	if c.MemoryRoom == nil {
		c.MemoryRoom = func() (forNew, forExisting float64) { return 1, 1 }
	}
	if c.ReserveRoom == nil {
		c.ReserveRoom = func(int64) (func(), bool) { return func() {}, true }
	}
	if c.Marked == nil {
		c.Marked = func(uint64, *metadata.State) {}
	}
	if c.Checked == nil {
		c.Checked = func(metadata.CheckHash) {}
	}
	c.Logger = cmp.Or(c.Logger, zap.NewNop())
	c.Registerer = cmp.Or[prometheus.Registerer](c.Registerer, prometheus.NewRegistry())
}

// Validate returns all faults.
func (c *Config) Validate() error {
	var errs []error
	if c.Tenure == nil || c.State == nil {
		errs = append(errs, errors.New("no tenure or no state"))
	}
	if c.GroupBytes < 1 || c.GroupCommands < 1 {
		errs = append(errs, fmt.Errorf("group bounds %d bytes, %d commands: must be positive", c.GroupBytes, c.GroupCommands))
	}
	if c.CommandBytes < 1 || c.CommandBytes > metalog.MaxPayloadBytes/2 {
		errs = append(errs, fmt.Errorf("command bytes %d: must be 1 to %d", c.CommandBytes, metalog.MaxPayloadBytes/2))
	}
	if c.QueueBytes < int64(c.CommandBytes)+proposalOverhead {
		errs = append(errs, fmt.Errorf("queue bytes %d: must hold a command of %d bytes", c.QueueBytes, c.CommandBytes))
	}
	if c.SoftLogBytes < 0 || c.SoftLogBytes >= c.HardLogBytes {
		errs = append(errs, fmt.Errorf("soft log limit %d must be below the hard one %d", c.SoftLogBytes, c.HardLogBytes))
	}
	if c.MaxExtents < 1 || c.MaxFresh < 1 || c.MaxBytes < 0 {
		errs = append(errs, fmt.Errorf("bounds of %d extents, %d bundles not compacted: must be positive, that of %d bytes not negative",
			c.MaxExtents, c.MaxFresh, c.MaxBytes))
	}
	return errors.Join(errs...)
}
