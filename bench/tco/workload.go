package tco

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/freshet-io/freshet/bench/tco/catalog"
)

// Object stores that Freshet's bill knows.
const (
	S3Standard = "s3-standard"
	S3Express  = "s3-express"
)

// Ways to share in a zone: one set of writers and one cache for all agents of a zone, as agents do, or each agent for
// itself.
const (
	ShareZone  = "zone"
	ShareAgent = "agent"
)

// Ways to the object store: a gateway endpoint is free, NAT gateways charge for hours and bytes.
const (
	EndpointGateway = "gateway"
	EndpointNAT     = "nat"
)

// Encryption of objects: the store's own keys are free.
const (
	KMSNone       = "none"
	KMSBucketKeys = "bucket-keys"
	KMSObjects    = "objects"
)

// Phase is a part of the day. Volumes follow the mean, the number of agents the peak.
type Phase struct {
	Hours      float64
	Mean, Peak float64 // bytes a second that producers write, before compression
}

// Workload is what is written and read, and how Freshet is set up for it.
type Workload struct {
	Name       string
	Throughput int64 // bytes a second before compression; default 1 GiB/s. Phases take its place
	Phases     []Phase

	CompressionRatio float64       // bytes before over bytes after; default 1
	Fanout           float64       // groups that read everything; default 1, negative means none
	Zones            int           // default 3
	Retention        time.Duration // default 24 h
	BatchBytes       int64         // of a batch as the client sends it; default 16 KiB

	Setup
}

// Setup is how Freshet is run.
type Setup struct {
	BundleBytes   int64         // of a full bundle; default 8 MiB
	FlushInterval time.Duration // default 250 ms
	PutBudget     float64       // PUTs a second and zone while bundles are not full; default 4
	HedgedPuts    float64       // share of PUTs made twice; default 0.05, which is the most
	Rewrites      int           // times that compaction writes a byte again; default 2, negative means none
	ObjectBytes   int64         // of what compaction writes; default 512 MiB
	PartBytes     int64         // of its multipart uploads, less on machines with little memory; default 64 MiB

	Store    string // default s3-standard
	Copies   int    // zones that Express keeps a bundle in; default 1
	Sharing  string // default zone
	Endpoint string // default gateway
	KMS      string // default none

	Instance        string  // of agents; default Cheapest
	Shape           string  // of the CPU measured; default B
	CPUHeadroom     float64 // share of an agent's CPU that stays free at the peak; default 0.5
	MinAgents       int     // of a zone; default 2, so that one may fail
	NetworkHeadroom float64 // the same of the network's baseline; default 0.3
	ControlInstance string  // of control-plane replicas; default m7g.large
	ControlReplicas int     // default 3
	ControlDiskGiB  int     // of each, for etcd; default 16
}

// ApplyDefaults fills what is zero.
func (w *Workload) ApplyDefaults() {
	w.Name = cmp.Or(w.Name, "custom")
	w.Throughput = cmp.Or(w.Throughput, 1<<30)
	w.CompressionRatio = cmp.Or(w.CompressionRatio, 1)
	w.Fanout = cmp.Or(w.Fanout, 1)
	w.Zones = cmp.Or(w.Zones, 3)
	w.Retention = cmp.Or(w.Retention, 24*time.Hour)
	w.BatchBytes = cmp.Or(w.BatchBytes, 16<<10)
	w.Setup.applyDefaults()
}

func (s *Setup) applyDefaults() {
	s.BundleBytes = cmp.Or(s.BundleBytes, 8<<20)
	s.FlushInterval = cmp.Or(s.FlushInterval, 250*time.Millisecond)
	s.PutBudget = cmp.Or(s.PutBudget, 4)
	s.HedgedPuts = cmp.Or(s.HedgedPuts, 0.05)
	s.Rewrites = cmp.Or(s.Rewrites, 2)
	s.ObjectBytes = cmp.Or(s.ObjectBytes, 512<<20)
	s.PartBytes = cmp.Or(s.PartBytes, 64<<20)
	s.Store = cmp.Or(s.Store, S3Standard)
	s.Copies = cmp.Or(s.Copies, 1)
	s.Sharing = cmp.Or(s.Sharing, ShareZone)
	s.Endpoint = cmp.Or(s.Endpoint, EndpointGateway)
	s.KMS = cmp.Or(s.KMS, KMSNone)
	s.Instance = cmp.Or(s.Instance, Cheapest)
	s.Shape = cmp.Or(s.Shape, "B")
	s.CPUHeadroom = cmp.Or(s.CPUHeadroom, 0.5)
	s.NetworkHeadroom = cmp.Or(s.NetworkHeadroom, 0.3)
	s.MinAgents = cmp.Or(s.MinAgents, 2)
	s.ControlInstance = cmp.Or(s.ControlInstance, "m7g.large")
	s.ControlReplicas = cmp.Or(s.ControlReplicas, 3)
	s.ControlDiskGiB = cmp.Or(s.ControlDiskGiB, 16)
}

// ErrInvalid is a workload that cannot be computed; the error names every setting that is out of bounds.
var ErrInvalid = errors.New("invalid workload")

// MaxZones bounds the zones of a workload.
const MaxZones = 16

// Validate tells all that is wrong at once.
func (w *Workload) Validate() error {
	var f faults
	w.validate(&f)
	return f.err()
}

func (w *Workload) validate(f *faults) {
	f.between("throughput", float64(w.Throughput), 1, 1<<50)
	f.between("compression-ratio", w.CompressionRatio, 0.1, 1000)
	f.between("fanout", w.Fanout, -1, 1000)
	f.between("zones", float64(w.Zones), 1, MaxZones)
	f.between("retention (hours)", w.Retention.Hours(), 0, 24*3650)
	f.between("batch-bytes", float64(w.BatchBytes), 100, 1<<30)
	for _, p := range w.Phases {
		f.between("phase (hours)", p.Hours, 1e-3, 24)
		f.between("phase (peak)", p.Peak, math.Max(p.Mean, 1), 1<<50)
	}
	w.Setup.validate(f)
}

func (s *Setup) validate(f *faults) {
	f.between("bundle-bytes", float64(s.BundleBytes), 64<<10, 1<<30)
	f.between("flush-interval (seconds)", s.FlushInterval.Seconds(), 0.001, 60)
	f.between("put-budget", s.PutBudget, 0.01, 10_000)
	f.between("hedged-puts", s.HedgedPuts, 0, 1)
	f.between("rewrites", float64(s.Rewrites), -1, 20)
	f.between("object-bytes", float64(s.ObjectBytes), 1<<20, 5<<40)
	f.between("part-bytes", float64(s.PartBytes), 5<<20, 5<<30)
	f.between("express-copies", float64(s.Copies), 1, MaxZones)
	f.oneOf("store", s.Store, S3Standard, S3Express)
	f.oneOf("sharing", s.Sharing, ShareZone, ShareAgent)
	f.oneOf("endpoint", s.Endpoint, EndpointGateway, EndpointNAT)
	f.oneOf("kms", s.KMS, KMSNone, KMSBucketKeys, KMSObjects)
	f.between("cpu-headroom", s.CPUHeadroom, 0, 0.95)
	f.between("network-headroom", s.NetworkHeadroom, 0, 0.95)
	f.between("min-agents", float64(s.MinAgents), 1, 1000)
	f.between("control-replicas", float64(s.ControlReplicas), 1, 15)
	f.between("control-disk (GiB)", float64(s.ControlDiskGiB), 1, 16384)
	f.machines(s)
}

// faults collects what is wrong.
type faults struct{ errs []error }

func (f *faults) between(name string, v, least, most float64) {
	if !(v >= least && v <= most) { // NaN is neither
		f.errs = append(f.errs, fmt.Errorf("%s: %v is not between %v and %v", name, v, least, most))
	}
}

func (f *faults) oneOf(name, v string, allowed ...string) {
	if !slices.Contains(allowed, v) {
		f.errs = append(f.errs, fmt.Errorf("%s: %q is not one of %v", name, v, allowed))
	}
}

// machines checks what the catalogue must know.
func (f *faults) machines(s *Setup) {
	instances, err := catalog.LoadInstances()
	if err != nil {
		f.errs = append(f.errs, err)
		return
	}
	measured, err := catalog.LoadMeasured()
	if err != nil {
		f.errs = append(f.errs, err)
		return
	}
	var agent error
	if s.Instance != Cheapest {
		_, agent = instances.Get(s.Instance)
	}
	_, control := instances.Get(s.ControlInstance)
	_, shape := measured.Shape(s.Shape)
	for _, c := range []struct {
		name string
		err  error
	}{{"instance", agent}, {"control-instance", control}, {"shape", shape}} {
		if c.err != nil {
			f.errs = append(f.errs, fmt.Errorf("%s: %w", c.name, c.err))
		}
	}
}

func (f *faults) err() error {
	if len(f.errs) == 0 {
		return nil
	}
	return fmt.Errorf("%w:\n%w", ErrInvalid, errors.Join(f.errs...))
}
