package clean

import (
	"cmp"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/agent/recode"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
)

const (
	// DefaultMapBytes holds the keys of 2.1 million records.
	DefaultMapBytes = 64 << 20
	// minMapBytes makes sure that every cleaning gets further.
	minMapBytes = 2 * slotBytes
	// DefaultExtentBytes is where an output extent ends: at the first batch boundary at or after it.
	DefaultExtentBytes = 16 << 20
	// DefaultBundleBytes is where an output bundle ends.
	DefaultBundleBytes = 1 << 30
)

// Env is what runs use.
type Env struct {
	Bucket objstore.Bucket
	Prefix string // of the virtual cluster's bundles: empty, or ending in a slash
	// Output says how bundles are written; where they go and their names are filled in.
	Output bundle.WriterConfig
	// MapBytes bounds the memory for keys of one run. Default DefaultMapBytes.
	MapBytes int64
	// MaxRecordBytes bounds what the records of a batch may decompress to. Default recode.DefaultMaxRecordBytes.
	MaxRecordBytes int64
	// ExtentBytes and BundleBytes bound outputs. Defaults DefaultExtentBytes, DefaultBundleBytes.
	ExtentBytes, BundleBytes int64
	Log                      *zap.Logger
	Metrics                  *Metrics
}

func (e *Env) applyDefaults() {
	e.MapBytes = cmp.Or(e.MapBytes, DefaultMapBytes)
	e.MaxRecordBytes = cmp.Or(e.MaxRecordBytes, recode.DefaultMaxRecordBytes)
	e.ExtentBytes = cmp.Or(e.ExtentBytes, DefaultExtentBytes)
	e.BundleBytes = cmp.Or(e.BundleBytes, DefaultBundleBytes)
	e.MapBytes = max(e.MapBytes, minMapBytes)
	e.Log = cmp.Or(e.Log, zap.NewNop())
}
