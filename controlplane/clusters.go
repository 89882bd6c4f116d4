package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/controlplane/keys"
	"github.com/freshet-io/freshet/controlplane/operator"
	"github.com/freshet-io/freshet/controlplane/session"
)

// clusters are the virtual clusters on this replica. Agents' and operators' calls find their virtual cluster here, and reconcile.go starts and
// stops them. It is safe for concurrent use.
type clusters struct {
	build    func(*directory.Spec) (*cluster, error)
	ready    func(*cluster) error
	keys     *keys.Set
	registry *prometheus.Registry // of the process
	hosted   *prometheus.Registry // of what the virtual clusters of etcd count together
	log      *zap.Logger

	mu struct {
		sync.RWMutex
		bySource map[source]*entry
		byName   map[string]*entry
		listed   time.Time // when etcd's Specs were read for the first time, zero before
		started  bool      // unready returned no error once
	}
}

// entry is one virtual cluster. clusters.mu guards all fields that change.
type entry struct {
	source
	newest  directory.Change // of etcd
	spec    *directory.Spec  // the newest one, nil if invalid or refused
	invalid error            // reason for which the newest Spec is not run: malformed, or its name or a key is taken
	keys    []keys.Entry     // in the keys.Set
	removed bool             // from etcd
	running *cluster         // of the newest start, nil before the first; it may have stopped
	fault   error            // of the newest end or failed start, nil after the next start
	changed chan struct{}    // has an element after a change
	// stop, if not nil, ends the run of serves.
	serves *directory.Spec
	stop   context.CancelFunc
}

// source is the place of a Spec.
type source struct {
	kind string
	key  string // the name in the settings, or the end of etcd's key
}

// Kinds of sources.
const (
	ofSettings = "settings"
	ofEtcd     = "etcd"
)

// newClusters returns clusters without any. ready returns nil for a cluster that is ready.
func newClusters(
	build func(*directory.Spec) (*cluster, error), ready func(*cluster) error, set *keys.Set, registry *prometheus.Registry, log *zap.Logger,
) *clusters {
	s := &clusters{build: build, ready: ready, keys: set, registry: registry, hosted: prometheus.NewRegistry(), log: log}
	s.mu.bySource, s.mu.byName = map[source]*entry{}, map[string]*entry{}
	return s
}

// add adds a virtual cluster of the settings, whose keys are in the keys.Set already.
func (s *clusters) add(spec *directory.Spec) error {
	built, err := s.build(spec)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := &entry{source: source{ofSettings, spec.Name}, spec: spec, running: built, changed: make(chan struct{}, 1)}
	s.mu.bySource[e.source], s.mu.byName[spec.Name] = e, e
	return nil
}

func (s *clusters) find(name string) *cluster {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if e := s.mu.byName[name]; e != nil && e.runs(name) {
		return e.running
	}
	return nil
}

// ofEtcd returns the virtual cluster of etcd with a cluster id.
func (s *clusters) ofEtcd(clusterID string) (e entry, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	found := s.mu.bySource[source{ofEtcd, clusterID}]
	if found == nil || found.removed {
		return entry{}, false
	}
	return *found, true
}

// runs reports whether a cluster of a name was started. After a renaming, the cluster of the former name may still stop.
func (e *entry) runs(name string) bool { return e.running != nil && e.running.spec.Name == name }

// count returns the number of virtual clusters, served or not.
func (s *clusters) count() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.mu.bySource)
}

// entries returns all entries in the order of their names, without removed ones, which may be about to stop.
func (s *clusters) entries() []entry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var all []entry
	for _, e := range s.mu.bySource {
		if !e.removed {
			all = append(all, *e)
		}
	}
	slices.SortFunc(all, func(a, b entry) int {
		return cmp.Or(strings.Compare(a.name(), b.name()), strings.Compare(a.key, b.key))
	})
	return all
}

// owned returns the virtual clusters of etcd that this replica owns, in no order.
func (s *clusters) owned() (all []*cluster) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, e := range s.mu.bySource {
		if e.kind == ofEtcd && !e.removed && e.running != nil && e.running.owner() != nil {
			all = append(all, e.running)
		}
	}
	return all
}

// name returns the name, or "" for an invalid Spec.
func (e *entry) name() string {
	if e.spec == nil {
		return ""
	}
	return e.spec.Name
}

// session returns the side of a virtual cluster that agents talk to. Errors: session.ErrNotServed, or a temporary one.
func (s *clusters) session(name string) (*session.Cluster, error) {
	c, err := s.served(name)
	if err != nil {
		return nil, err
	}
	c.contacted.Store(true)
	return c.sessions, nil
}

// operator returns the side of a virtual cluster that operators talk to. Errors as of session.
func (s *clusters) operator(name string) (operator.Cluster, error) {
	c, err := s.served(name)
	if err != nil {
		return operator.Cluster{}, err
	}
	return c.operator(), nil
}

var (
	errStarts = errors.New("it is starting")
	// errSuspended is temporary, so the agents of a suspended virtual cluster wait for its resumption.
	errSuspended = errors.New("is suspended: resume it with `freshet ctl cluster resume`, or ask the operator if it is blocked")
)

func (s *clusters) served(name string) (*cluster, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := s.mu.byName[name]
	switch {
	case e == nil:
		return nil, session.ErrNotServed
	case e.spec.State == directory.Suspended:
		return nil, errSuspended
	case e.spec.State != directory.Active:
		return nil, fmt.Errorf("is %s and %w: bring it back within 24 h with `freshet ctl cluster undelete`, or stop its agents", e.spec.State, session.ErrNotServed)
	case !e.runs(name):
		return nil, cmp.Or(e.fault, errStarts)
	}
	return e.running, nil
}

// unready returns an error for each virtual cluster that keeps the replica from being ready: one of the settings that is not ready, and, while
// the replica starts, one of etcd that neither is ready nor has failed. The start ends when there is none of either, or startWait after the first
// list. From then on no virtual cluster of etcd makes the replica unready for the others.
func (s *clusters) unready() []error {
	s.mu.RLock()
	started, listed := s.mu.started, s.mu.listed
	s.mu.RUnlock()
	var errs []error
	if listed.IsZero() {
		errs = append(errs, errUnlisted)
	} else if time.Since(listed) > startWait {
		started = true
	}
	for _, e := range s.entries() {
		if e.kind == ofEtcd && (started || e.invalid != nil || e.fault != nil) {
			continue
		}
		if err := s.failed(&e); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		s.mu.Lock()
		s.mu.started = true
		s.mu.Unlock()
	}
	return errs
}

// startWait bounds the time for which a replica that starts waits for virtual clusters of etcd.
const startWait = time.Minute

var errUnlisted = errors.New("virtual clusters in etcd are not read yet")

// maxWarned bounds the virtual clusters of which a replica warns.
const maxWarned = 10

// warnings returns the faults of virtual clusters that do not make the replica unready, of maxWarned of them at most.
func (s *clusters) warnings() []string {
	var all []string
	for _, e := range s.entries() {
		switch fault := s.failed(&e); {
		case e.kind == ofEtcd && fault != nil:
			all = append(all, fault.Error())
		case e.running != nil && e.running.warning() != "":
			all = append(all, e.running.warning())
		}
	}
	if more := len(all) - maxWarned; more > 0 {
		all = append(all[:maxWarned], fmt.Sprintf("%d more virtual clusters have faults on this replica: see `freshet cluster list`", more))
	}
	return all
}

// failed returns why a virtual cluster is not served though it should be, or nil.
func (s *clusters) failed(e *entry) error {
	switch {
	case e.invalid != nil:
		return e.invalid
	case e.spec.State != directory.Active:
		return nil
	case !e.runs(e.name()):
		return fmt.Errorf("virtual cluster %s: %w", e.name(), cmp.Or(e.fault, errStarts))
	}
	return s.ready(e.running)
}

// list returns the virtual clusters in the order of their names. Invalid Specs have no name and come first.
func (s *clusters) list() []operator.Listed {
	all := []operator.Listed{}
	for _, e := range s.entries() {
		l := operator.Listed{VirtualCluster: e.name(), Source: e.kind}
		if e.kind == ofEtcd {
			l.ClusterID = e.key
		}
		if e.spec != nil {
			l.State = string(e.spec.State)
		}
		if c := e.running; c != nil {
			l.ClusterID = c.clusterID()
			if o, ok := c.located(); ok {
				l.Owner = &operator.Owner{Replica: o.Replica, Address: o.Address}
			}
		}
		if fault := s.failed(&e); fault != nil {
			l.Fault = fault.Error()
		}
		all = append(all, l)
	}
	return all
}

// Gather implements prometheus.Gatherer. It gathers the metrics of the process and of each virtual cluster that runs.
func (s *clusters) Gather() ([]*dto.MetricFamily, error) {
	all := prometheus.Gatherers{s.registry, s.hosted}
	s.mu.RLock()
	for name, e := range s.mu.byName { // one that stops has lost its name, which another one may have
		if e.runs(name) {
			all = append(all, e.running.gathered)
		}
	}
	s.mu.RUnlock()
	return all.Gather()
}

// clusterStates is the metric of the virtual clusters by state.
type clusterStates struct{ *clusters }

var clusterStatesDesc = prometheus.NewDesc("freshet_controlplane_virtual_clusters",
	"Virtual clusters on this replica by state: active, suspended, deleted, failed.", []string{"state"}, nil)

// Describe implements prometheus.Collector.
func (c clusterStates) Describe(descs chan<- *prometheus.Desc) { descs <- clusterStatesDesc }

// Collect implements prometheus.Collector. A virtual cluster counts as failed from its end until it starts again.
func (c clusterStates) Collect(metrics chan<- prometheus.Metric) {
	counts := map[string]int{"failed": 0, string(directory.Active): 0, string(directory.Suspended): 0, string(directory.Deleted): 0}
	for _, e := range c.entries() {
		state := "failed"
		if e.invalid == nil && e.fault == nil {
			state = string(e.spec.State)
		}
		counts[state]++
	}
	for _, state := range slices.Sorted(maps.Keys(counts)) {
		metrics <- prometheus.MustNewConstMetric(clusterStatesDesc, prometheus.GaugeValue, float64(counts[state]), state)
	}
}
