package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/metadata"
)

// Bounds of the limits of a cluster. The minimum of limits other than Memory and LogBytes is 1.
const (
	// maxMemory bounds Memory, and its quarter the limits in bytes, since the state has a quarter of the memory.
	maxMemory = 64 << 30
	// maxLogBytes bounds LogBytes. An etcd quota of 8 GiB has room for a few such logs.
	maxLogBytes = 1 << 30
	// maxLimit bounds the limits that are numbers. A state of 16 GiB holds as many topics with configs.
	maxLimit = 10_000_000
)

// Limits are the limits of a cluster. The fields that a request does not have stay.
type Limits struct {
	Memory           *int64 `json:"memory_bytes,omitempty" doc:"Memory of the cluster on a control plane, from which other bounds follow. A control plane with less memory uses its own. 16 MiB to 64 GiB, or 0 for the default of 128 MiB."`
	LogBytes         *int64 `json:"log_bytes,omitempty" doc:"Bytes of the metadata log at which changes are refused until a snapshot is stored. 1 MiB to 1 GiB, or 0 for the default of 32 MiB."`
	Warm             *bool  `json:"warm,omitempty" doc:"Whether all control planes keep the metadata in memory, and take the cluster over first."`
	Topics           *int64 `json:"topics,omitempty" doc:"Topics, with deleted ones that can be brought back. 1 to 10,000,000, or 0 for the number that follows from the memory."`
	Partitions       *int64 `json:"partitions,omitempty" doc:"Partitions of all topics. 1 to 10,000,000, or 0 for the number that follows from the memory."`
	Groups           *int64 `json:"groups,omitempty" doc:"Groups with members or offsets. 1 to 10,000,000, or 0 for the number that follows from the memory."`
	GroupMembers     *int64 `json:"group_members,omitempty" doc:"Members of one group. 1 to 10,000,000, or 0 for the number that follows from the memory."`
	TransactionalIDs *int64 `json:"transactional_ids,omitempty" doc:"Transactional IDs of the last 7 days. 1 to 10,000,000, or 0 for the number that follows from the memory."`
	OffsetBytes      *int64 `json:"offset_bytes,omitempty" doc:"Memory of the offsets of groups. 1 byte to 16 GiB, or 0 for the number that follows from the memory."`
	TextBytes        *int64 `json:"text_bytes,omitempty" doc:"Bytes of configs, and of the names of topics, groups and transactional IDs. 1 to 16 GiB, or 0 for the number that follows from the memory."`
}

type limitClusterInput struct {
	AnyClusterInput
	Body Limits
}

// errNoSpec is returned for the limits of a cluster whose creation was interrupted.
var errNoSpec = errors.New("the creation of the cluster was interrupted: the team repeats it first")

// limit is a limit of a Spec that is a number, with its field of Limits.
type limit struct {
	name        string // of the field
	stored      *int64 // in the Spec
	field       **int64
	fallback    int64 // of a stored 0; 0 for a number that follows from the memory
	least, most int64 // of a request, beside 0
}

// each returns the numbers among the limits of a Spec.
func (l *Limits) each(spec *directory.Spec) []limit {
	all := []limit{
		{"memory_bytes", &spec.Memory, &l.Memory, directory.DefaultMemory, directory.MinMemory, maxMemory},
		{"log_bytes", &spec.LogBytes, &l.LogBytes, directory.DefaultLogBytes, directory.MinLogBytes, maxLogBytes},
	}
	fields := [len(metadata.Limits{})]**int64{
		metadata.LimitTopics: &l.Topics, metadata.LimitPartitions: &l.Partitions, metadata.LimitGroups: &l.Groups, metadata.LimitGroupMembers: &l.GroupMembers,
		metadata.LimitTransactionalIDs: &l.TransactionalIDs, metadata.LimitOffsetBytes: &l.OffsetBytes, metadata.LimitTextBytes: &l.TextBytes,
	}
	for i, field := range fields {
		kind, most := metadata.LimitKind(i), int64(maxLimit)
		if kind == metadata.LimitOffsetBytes || kind == metadata.LimitTextBytes {
			most = maxMemory / 4
		}
		all = append(all, limit{strings.ReplaceAll(kind.String(), "-", "_"), &spec.Limits[kind], field, 0, 1, most})
	}
	return all
}

// limitsOf returns the limits of a Spec. Numbers that follow from the memory are absent.
func limitsOf(spec *directory.Spec) *Limits {
	shown := &Limits{Warm: &spec.Warm}
	for _, l := range shown.each(spec) {
		if value := cmp.Or(*l.stored, l.fallback); value != 0 {
			*l.field = &value
		}
	}
	return shown
}

// check returns the problem of limits of a request that are out of bounds, or nil.
func (l *Limits) check() error {
	p := problem(http.StatusUnprocessableEntity, "validation failed")
	for _, l := range l.each(new(directory.Spec)) {
		if value := *l.field; value != nil && *value != 0 && (*value < l.least || *value > l.most) {
			p.Errors = append(p.Errors, Fault{Location: "body." + l.name, Message: fmt.Sprintf("expected %d to %d, or 0 for the default", l.least, l.most)})
		}
	}
	if len(p.Errors) > 0 {
		return p
	}
	return nil
}

// apply sets the limits of a request in a Spec, and returns the changes in words.
func (l *Limits) apply(spec *directory.Spec) string {
	var changes []string
	note := func(name string, from, to any) { changes = append(changes, fmt.Sprintf("%s %v -> %v", name, from, to)) }
	for _, l := range l.each(spec) {
		if *l.field == nil {
			continue
		}
		if from, to := cmp.Or(*l.stored, l.fallback), cmp.Or(**l.field, l.fallback); from != to {
			note(l.name, from, to)
			*l.stored = to
		}
	}
	if l.Warm != nil && *l.Warm != spec.Warm {
		note("warm", spec.Warm, *l.Warm)
		spec.Warm = *l.Warm
	}
	return strings.Join(changes, ", ")
}

// limit changes limits of a cluster. The Spec alone has them, so it is written together with the audit entry.
func (h *Handler) limit(ctx context.Context, who *caller, in *limitClusterInput) (*teamClusterOutput, error) {
	if err := in.Body.check(); err != nil {
		return nil, err
	}
	err := h.cfg.Registry.LimitCluster(ctx, who.actor(), in.Cluster, func() (changes string, cmps []clientv3.Cmp, put clientv3.Op, err error) {
		spec, revision, err := h.cfg.Directory.Get(ctx, in.Cluster)
		if err == nil && spec == nil {
			err = errNoSpec
		}
		if err != nil {
			return "", nil, put, err
		}
		changes = in.Body.apply(spec)
		cmps, put, err = h.cfg.Directory.Replacement(spec, revision)
		return changes, cmps, put, err
	})
	return h.changed(ctx, in.Cluster, err)
}
