package merge

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
	"github.com/freshet-io/freshet/objstore/resume"
)

// Defaults.
const (
	DefaultExtentBytes  = 16 << 20
	DefaultBundleBytes  = 1 << 30
	DefaultBuffersBytes = 32 << 20
)

// Bounds.
const (
	minBuffer = 16 << 10  // per input
	maxBuffer = 256 << 10 // per input
	// skipBytes is the largest stretch that is read and thrown away rather than left out by another GET.
	skipBytes = 4 << 20
	// openAtOnce bounds the first GETs that are under way side by side.
	openAtOnce = 8
	// maxMargin is what a bundle may grow past BundleBytes by its last batch, and more.
	maxMargin = 256 << 20
)

// Env is what runs use. Zero fields take the defaults named.
type Env struct {
	Bucket objstore.Bucket
	Prefix string // of the virtual cluster's bundles: empty, or ending in a slash
	// ExtentBytes and BundleBytes are the sizes from which on an extent and a bundle of the output end, at the next batch;
	// an extent takes less than half of another's bytes along that would be left of its run. Defaults 16 MiB and 1 GiB.
	ExtentBytes, BundleBytes int64
	// PartBytes is the size of the parts that the output is uploaded in, InFlight how many go side by side. Defaults
	// bundle.DefaultPartBytes and 1.
	PartBytes, InFlight int
	// BuffersBytes bounds the buffers of all inputs together, but for 16 KiB for each. Default 32 MiB.
	BuffersBytes int
	// StallTimeout is how long a read may bring nothing before its connection is made again. Default
	// resume.DefaultStallTimeout.
	StallTimeout time.Duration
	Log          *zap.Logger
	Metrics      *Metrics // default: not registered
}

// ApplyDefaults fills in what is zero.
func (e *Env) ApplyDefaults() {
	e.ExtentBytes = cmp.Or(e.ExtentBytes, DefaultExtentBytes)
	e.BundleBytes = cmp.Or(e.BundleBytes, DefaultBundleBytes)
	e.PartBytes = cmp.Or(e.PartBytes, bundle.DefaultPartBytes)
	e.BuffersBytes = cmp.Or(e.BuffersBytes, DefaultBuffersBytes)
	e.StallTimeout = cmp.Or(e.StallTimeout, resume.DefaultStallTimeout)
	e.Log = cmp.Or(e.Log, zap.NewNop())
	if e.Metrics == nil {
		e.Metrics = NewMetrics(nil)
	}
}

// Validate gives all faults at once. Call it after ApplyDefaults.
func (e *Env) Validate() error {
	var faults []error
	if e.Bucket == nil {
		faults = append(faults, errors.New("no bucket"))
	}
	if e.ExtentBytes < 1 || e.BundleBytes < 1 || e.BundleBytes > bundle.MaxSize-maxMargin {
		faults = append(faults, fmt.Errorf("extents of %d bytes in bundles of %d", e.ExtentBytes, e.BundleBytes))
	}
	return errors.Join(faults...)
}
