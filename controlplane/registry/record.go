package registry

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/freshet-io/freshet/metadata/id"
)

// recordVersion is the version of the JSON of all records. A program does not read a record of a later version.
const recordVersion = 1

// Bounds of a record's texts, in bytes.
const (
	MaxNameBytes         = 200
	MaxEmailBytes        = 254 // RFC 5321: a path of 256 with its angle brackets
	MaxPasswordHashBytes = 512
	MaxAddressBytes      = 64
	MaxShownBytes        = 12 // beginning of an agent key; the secret follows later
	MaxSubjectBytes      = 512
	maxRecordBytes       = 64 << 10
)

// Head is common to all records. The package sets it.
type Head struct {
	Version  int   `json:"version"`
	Revision int64 `json:"-"` // etcd's at the last change, 0 for a record that is not stored
	lease    clientv3.LeaseID
}

func (h *Head) head() *Head { return h }

// record is the pointer to a record.
type record interface {
	kind() string
	place() []*string // fields in the key behind the kind, in order
	head() *Head
	check() error // ErrInvalid
}

// recordOf is the pointer to a record of type T.
type recordOf[T any] interface {
	*T
	record
}

// List has the records of one place in order of their keys. Faults has an error for each record that cannot be read.
type List[T any] struct {
	Records []*T
	Faults  []error // ErrMalformed or ErrNewer, with the key
}

func (r *Registry) keyOf(rec record) string {
	var parts []string
	for _, part := range rec.place() {
		parts = append(parts, *part)
	}
	return r.key(rec.kind(), parts...)
}

// unchanged compares a record with the one in etcd, by revision.
func (r *Registry) unchanged(rec record) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(r.keyOf(rec)), "=", rec.head().Revision)
}

// put returns the operation that stores a record. A record that has a lease keeps it. Error: ErrInvalid.
func (r *Registry) put(rec record) (clientv3.Op, error) {
	rec.head().Version = recordVersion
	if err := check(rec); err != nil {
		return clientv3.Op{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	value, err := json.Marshal(rec)
	if err != nil {
		return clientv3.Op{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if len(value) > maxRecordBytes {
		return clientv3.Op{}, fmt.Errorf("%w: record of %d bytes, limit %d", ErrInvalid, len(value), maxRecordBytes)
	}
	return clientv3.OpPut(r.keyOf(rec), string(value), clientv3.WithLease(rec.head().lease)), nil
}

// puts returns the operations that store records.
func (r *Registry) puts(recs ...record) (ops []clientv3.Op, err error) {
	for _, rec := range recs {
		op, err := r.put(rec)
		if err != nil {
			return nil, err
		}
		ops = append(ops, op)
	}
	return ops, nil
}

func (r *Registry) remove(rec record) clientv3.Op { return clientv3.OpDelete(r.keyOf(rec)) }

// read returns the record of a place. Errors: ErrNotFound, ErrMalformed and ErrNewer with the key, etcd's.
func read[T any, P recordOf[T]](ctx context.Context, r *Registry, place ...string) (P, error) {
	rec := P(new(T))
	for i, part := range rec.place() {
		if !validPart(place[i]) {
			return nil, notFound(rec.kind(), place)
		}
		*part = place[i]
	}
	resp, err := r.cfg.Client.Get(ctx, r.keyOf(rec))
	if err != nil {
		return nil, fmt.Errorf("read %s in etcd: %w", r.keyOf(rec), err)
	}
	if len(resp.Kvs) == 0 {
		return nil, notFound(rec.kind(), place)
	}
	return rec, decode(rec, resp.Kvs[0])
}

// unreadable reports whether an error is that of a record that does not decode.
func unreadable(err error) bool { return errors.Is(err, ErrMalformed) || errors.Is(err, ErrNewer) }

// list returns the records whose place begins with the given parts. A place that cannot exist has none.
func list[T any, P recordOf[T]](ctx context.Context, r *Registry, parts ...string) (all List[T], err error) {
	kvs, err := r.below(ctx, P(new(T)).kind(), parts...)
	if err != nil {
		return all, err
	}
	for _, kv := range kvs {
		rec, err := decodeAt[T, P](r.key(P(new(T)).kind())+"/", kv)
		if err != nil {
			all.Faults = append(all.Faults, err)
			continue
		}
		all.Records = append(all.Records, rec)
	}
	return all, nil
}

// each calls visit with each record of a kind in order of the keys, or with the error of one that cannot be read, page by page. Error: etcd's.
func each[T any, P recordOf[T]](ctx context.Context, r *Registry, visit func(P, error)) error {
	prefix := r.key(P(new(T)).kind()) + "/"
	from, end := prefix, clientv3.GetPrefixRangeEnd(prefix)
	for {
		resp, err := r.cfg.Client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(maxListed))
		if err != nil {
			return fmt.Errorf("list %s in etcd: %w", prefix, err)
		}
		for _, kv := range resp.Kvs {
			visit(decodeAt[T, P](prefix, kv))
		}
		if !resp.More {
			return nil
		}
		from = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
	}
}

// decodeAt returns the record of a key below a prefix. Errors: ErrMalformed, ErrNewer, with the key.
func decodeAt[T any, P recordOf[T]](prefix string, kv *mvccpb.KeyValue) (P, error) {
	rec := P(new(T))
	found := strings.Split(strings.TrimPrefix(string(kv.Key), prefix), "/")
	if len(found) != len(rec.place()) {
		return nil, fmt.Errorf("etcd key %.300q: %w", kv.Key, ErrMalformed)
	}
	for i, part := range rec.place() {
		*part = found[i]
	}
	return rec, decode(rec, kv)
}

// EachCluster calls visit with each cluster of all teams, or with the error of one that cannot be read. Error: etcd's.
func (r *Registry) EachCluster(ctx context.Context, visit func(*Cluster, error)) error {
	return each(ctx, r, visit)
}

// EachTeam calls visit with each team, or with the error of one that cannot be read. Error: etcd's.
func (r *Registry) EachTeam(ctx context.Context, visit func(*Team, error)) error {
	return each(ctx, r, visit)
}

// EachAccount calls visit with each account, or with the error of one that cannot be read. Error: etcd's.
func (r *Registry) EachAccount(ctx context.Context, visit func(*Account, error)) error {
	return each(ctx, r, visit)
}

// below returns the keys and values under the parts of a place, up to maxListed.
func (r *Registry) below(ctx context.Context, kind string, parts ...string) ([]*mvccpb.KeyValue, error) {
	for _, part := range parts {
		if !validPart(part) {
			return nil, nil
		}
	}
	resp, err := r.cfg.Client.Get(ctx, r.key(kind, parts...)+"/", clientv3.WithPrefix(), clientv3.WithLimit(maxListed))
	if err != nil {
		return nil, fmt.Errorf("list %s in etcd: %w", r.key(kind, parts...), err)
	}
	return resp.Kvs, nil
}

// count returns the number of keys under the parts of a place.
func (r *Registry) count(ctx context.Context, kind string, parts ...string) (int, error) {
	resp, err := r.cfg.Client.Get(ctx, r.key(kind, parts...)+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return 0, fmt.Errorf("count %s in etcd: %w", r.key(kind, parts...), err)
	}
	return int(resp.Count), nil
}

// decode reads a value into a record that has its place. Errors: ErrMalformed, ErrNewer, with the key.
func decode(rec record, kv *mvccpb.KeyValue) error {
	fault := func(err error) error { return fmt.Errorf("etcd key %.300q: %w", kv.Key, err) }
	if len(kv.Value) > maxRecordBytes {
		return fault(fmt.Errorf("%w: %d bytes, limit %d", ErrMalformed, len(kv.Value), maxRecordBytes))
	}
	var versioned struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(kv.Value, &versioned); err != nil {
		return fault(fmt.Errorf("%w: %w", ErrMalformed, err))
	}
	if versioned.Version > recordVersion {
		return fault(fmt.Errorf("%w: version %d, and this program reads up to %d", ErrNewer, versioned.Version, recordVersion))
	}
	strict := json.NewDecoder(bytes.NewReader(kv.Value))
	strict.DisallowUnknownFields()
	if err := strict.Decode(rec); err != nil {
		return fault(fmt.Errorf("%w: %w", ErrMalformed, err))
	}
	if _, err := strict.Token(); !errors.Is(err, io.EOF) {
		return fault(fmt.Errorf("%w: text behind the JSON object", ErrMalformed))
	}
	if err := check(rec); err != nil {
		return fault(fmt.Errorf("%w: %w", ErrMalformed, err))
	}
	h := rec.head()
	h.Revision, h.lease = kv.ModRevision, clientv3.LeaseID(kv.Lease)
	return nil
}

// check returns the faults of a record.
func check(rec record) error {
	if v := rec.head().Version; v != recordVersion {
		return fmt.Errorf("version %d", v)
	}
	for _, part := range rec.place() {
		if !validPart(*part) {
			return fmt.Errorf("%.80q is no ID", *part)
		}
	}
	return rec.check()
}

// validPart reports whether a text can be a part of a key: an ID, the SHA-256 of a secret, or the number of an audit entry.
func validPart(text string) bool {
	if len(text) == entryDigits || len(text) == hex.EncodedLen(sha256Size) {
		return strings.Trim(text, "0123456789abcdef") == ""
	}
	return id.ValidCluster(text)
}

const sha256Size = 32

// CheckName returns ErrInvalid for a text that is no name of a team, agent key or API token.
func CheckName(name string) error {
	if err := text("name", name, MaxNameBytes); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

// text returns an error for a text that is empty, too long or has characters that do not print.
func text(field, value string, limit int) error {
	switch {
	case value == "" || value != strings.TrimSpace(value):
		return fmt.Errorf("%s: want a text without spaces around it", field)
	case len(value) > limit:
		return fmt.Errorf("%s: %d bytes, limit %d", field, len(value), limit)
	case !utf8.ValidString(value) || strings.ContainsFunc(value, func(c rune) bool { return !unicode.IsPrint(c) }):
		return fmt.Errorf("%s: %.80q has characters that do not print", field, value)
	}
	return nil
}

// ids returns an error for the first of the values that is no ID.
func ids(values ...string) error {
	for _, value := range values {
		if !id.ValidCluster(value) {
			return fmt.Errorf("%.80q is no ID", value)
		}
	}
	return nil
}

// created returns an error for a record without its time.
func created(at time.Time) error {
	if at.IsZero() {
		return errors.New("no time of creation")
	}
	return nil
}
