package directory

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/freshet-io/freshet/controlplane/keys"
	"github.com/freshet-io/freshet/internal/accesskey"
	"github.com/freshet-io/freshet/internal/brokerconfig"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// Bounds of a Spec.
const (
	// MaxSpecBytes bounds the value of a Spec in etcd.
	MaxSpecBytes = 64 << 10
	// MaxSpecKeys bounds the keys of a Spec.
	MaxSpecKeys = 100
	// MinMemory and DefaultMemory are the minimum and the default of Spec.Memory in etcd.
	MinMemory     = 16 << 20
	DefaultMemory = 128 << 20
	// MinLogBytes and DefaultLogBytes are the minimum and the default of Spec.LogBytes in etcd.
	MinLogBytes     = 1 << 20
	DefaultLogBytes = 32 << 20
)

// State is the state of a virtual cluster in its life.
type State string

// States.
const (
	Active    State = "active"    // served
	Suspended State = "suspended" // not served, and keeps everything
	Deleted   State = "deleted"   // not served, and may be purged
)

// Spec is the description of one virtual cluster. It comes from the settings of the control plane, or from etcd.
type Spec struct {
	// ID is the cluster id. In the settings it is the one in the keys, or "" if no key has one.
	ID string
	// Stored reports whether the Spec is etcd's, which has the ID in its key.
	Stored bool
	// Name is unique. 1 to 249 characters of a-z A-Z 0-9 . _ -
	Name  string
	State State
	// Keys are the agent keys and read-only keys, at most MaxSpecKeys in etcd.
	Keys []Key
	// Memory is the memory, in bytes, from which a replica computes the bounds of the virtual cluster. The state may take a quarter of it. A
	// replica uses its own memory limit if that is lower. Nothing adds up the Memory of several virtual clusters. 0 means no limit, in the
	// settings alone. Default in etcd: DefaultMemory.
	Memory int64
	// LogBytes is the untrimmed metadata log, in bytes, at which commands are refused. From half of it on they are delayed, and a snapshot is taken
	// after a quarter. A replica uses its own settings where they are lower. While etcd is crowded, all three are multiplied by a factor below 1.
	// 0 means DefaultLogBytes in etcd, and the replica's settings for a virtual cluster of the settings.
	LogBytes int64
	// Warm has replicas follow the log of the virtual cluster while another one is its owner, so that they take over sooner. Others do so for a
	// few virtual clusters. It is set for those of the settings.
	Warm bool
	// Limits are the limits of the state. 0 takes the one that follows from Memory.
	Limits metadata.Limits
	// DefaultPartitions is the partition count of topics created without one; default 1.
	DefaultPartitions int32
	// Broker has the configs of Kafka's brokers about groups and transactions.
	Broker brokerconfig.Settings
}

// Key is a key of a virtual cluster. Kind is keys.Agent or keys.ReadOnly.
type Key struct {
	Hash accesskey.Hash
	Kind keys.Kind
}

// Entries returns the keys as entries of a keys.Set.
func (s *Spec) Entries() []keys.Entry {
	entries := make([]keys.Entry, len(s.Keys))
	for i, k := range s.Keys {
		entries[i] = keys.Entry{Hash: k.Hash, Kind: k.Kind, VirtualCluster: s.Name}
	}
	return entries
}

// SameRun reports whether two Specs differ at most in their Keys and Limits, which a virtual cluster takes while it runs.
func (s *Spec) SameRun(o *Spec) bool {
	return s.ID == o.ID && s.Name == o.Name && s.State == o.State && s.Warm == o.Warm && s.Memory == o.Memory && s.LogBytes == o.LogBytes &&
		s.DefaultPartitions == o.DefaultPartitions && maps.Equal(s.Broker.Texts(), o.Broker.Texts())
}

var (
	// ErrSpec is returned for a Spec that is malformed or exceeds a bound.
	ErrSpec = errors.New("invalid description of a virtual cluster")
	// ErrNewer is returned for a Spec in etcd that a newer program wrote.
	ErrNewer = errors.New("a newer program wrote the description of the virtual cluster")
)

// specVersion is the version of the JSON of a Spec. A program does not read a Spec of a later version.
const specVersion = 1

// record is the JSON of a Spec. The key in etcd has the id.
type record struct {
	Version           int               `json:"version"`
	Name              string            `json:"name"`
	State             State             `json:"state"`
	Keys              []recordKey       `json:"keys,omitempty"`
	Warm              bool              `json:"warm,omitempty"`
	Memory            int64             `json:"memory_bytes,omitempty"` // 0: DefaultMemory
	LogBytes          int64             `json:"log_bytes,omitempty"`    // 0: DefaultLogBytes
	Limits            map[string]int64  `json:"limits,omitempty"`       // by metadata.LimitKind
	DefaultPartitions int32             `json:"default_partitions"`
	Configs           map[string]string `json:"configs,omitempty"` // of Broker
}

type recordKey struct {
	Kind   string `json:"kind"`
	SHA256 string `json:"sha256"`
}

// keyKinds are the kinds of keys in records.
var keyKinds = map[string]keys.Kind{"agent": keys.Agent, "read-only": keys.ReadOnly}

// limitKinds are the kinds of limits in records.
var limitKinds = func() map[string]metadata.LimitKind {
	kinds := map[string]metadata.LimitKind{}
	for kind := range len(metadata.Limits{}) {
		kinds[metadata.LimitKind(kind).String()] = metadata.LimitKind(kind)
	}
	return kinds
}()

// encode returns the JSON of a Spec. Error: ErrSpec.
func (s *Spec) encode() ([]byte, error) {
	r := record{Version: specVersion, Name: s.Name, State: s.State, Warm: s.Warm, Memory: s.Memory, LogBytes: s.LogBytes, DefaultPartitions: s.DefaultPartitions, Configs: s.Broker.Texts(), Limits: map[string]int64{}}
	for _, k := range s.Keys {
		kind := ""
		for name, of := range keyKinds {
			if of == k.Kind {
				kind = name
			}
		}
		r.Keys = append(r.Keys, recordKey{Kind: kind, SHA256: k.Hash.Digits()})
	}
	for name, kind := range limitKinds {
		if limit := s.Limits[kind]; limit != 0 {
			r.Limits[name] = limit
		}
	}
	value, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSpec, err)
	}
	if _, err := decode(s.ID, value); err != nil { // a reader reads no more than this
		return nil, err
	}
	return value, nil
}

// decode returns the Spec of a cluster id. Errors: ErrSpec, ErrNewer.
func decode(clusterID string, value []byte) (*Spec, error) {
	fault := func(format string, args ...any) (*Spec, error) {
		return nil, fmt.Errorf("%w: "+format, append([]any{ErrSpec}, args...)...)
	}
	if !id.ValidCluster(clusterID) {
		return fault("%.64q is no cluster id", clusterID)
	}
	if len(value) > MaxSpecBytes {
		return fault("%d bytes, limit %d", len(value), MaxSpecBytes)
	}
	var versioned struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(value, &versioned); err != nil {
		return fault("%w", err)
	}
	if versioned.Version > specVersion {
		return nil, fmt.Errorf("%w: version %d, and this program reads up to %d: upgrade this control plane", ErrNewer, versioned.Version, specVersion)
	}
	var r record
	strict := json.NewDecoder(bytes.NewReader(value))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&r); err != nil {
		return fault("%w", err)
	}
	if _, err := strict.Token(); !errors.Is(err, io.EOF) {
		return fault("text behind the JSON object")
	}
	s := &Spec{ID: clusterID, Stored: true, Name: r.Name, State: r.State, Warm: r.Warm, Memory: cmp.Or(r.Memory, DefaultMemory), LogBytes: r.LogBytes, DefaultPartitions: r.DefaultPartitions}
	switch {
	case r.Version != specVersion:
		return fault("version %d", r.Version)
	case !id.ValidVirtualCluster(r.Name):
		return fault("%.300q is no name of a virtual cluster", r.Name)
	case !slices.Contains([]State{Active, Suspended, Deleted}, r.State):
		return fault("unknown state %.64q", string(r.State))
	case r.DefaultPartitions < 1 || r.DefaultPartitions > metadata.MaxPartitions:
		return fault("%d partitions by default: must be 1 to %d", r.DefaultPartitions, metadata.MaxPartitions)
	case s.Memory < MinMemory:
		return fault("%d bytes of memory, at least %d", r.Memory, MinMemory)
	case r.LogBytes != 0 && r.LogBytes < MinLogBytes:
		return fault("log of %d bytes, at least %d", r.LogBytes, MinLogBytes)
	case len(r.Keys) > MaxSpecKeys:
		return fault("%d keys, limit %d", len(r.Keys), MaxSpecKeys)
	}
	known := map[accesskey.Hash]bool{}
	for i, k := range r.Keys {
		hash, ok := accesskey.ParseHash(k.SHA256)
		kind := keyKinds[k.Kind]
		if !ok || kind == 0 || hash == accesskey.HashOf("") {
			return fault("key %d: want a kind, agent or read-only, and the SHA-256 of a key in 64 hexadecimal digits", i+1)
		}
		if known[hash] {
			return fault("key %d is there twice", i+1)
		}
		known[hash] = true
		s.Keys = append(s.Keys, Key{Hash: hash, Kind: kind})
	}
	for _, name := range slices.Sorted(maps.Keys(r.Limits)) {
		kind, ok := limitKinds[name]
		if !ok || r.Limits[name] < 0 {
			return fault("limit %.64q of %d", name, r.Limits[name])
		}
		s.Limits[kind] = r.Limits[name]
	}
	for _, name := range slices.Sorted(maps.Keys(r.Configs)) {
		if err := s.Broker.Set(name, r.Configs[name]); err != nil {
			return fault("%w", err)
		}
	}
	if err := s.Broker.Validate(); err != nil {
		return fault("%w", err)
	}
	return s, nil
}
