package etcdlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// MaintainerConfig configures the upkeep of an etcd cluster that is Freshet's own.
type MaintainerConfig struct {
	Client  *clientv3.Client
	Prefix  string // default DefaultPrefix
	Replica string // id of this control-plane replica, for operators

	Check        time.Duration // how often the cluster is looked at: 5 s, and five times as often while a member is crowded
	Compact      time.Duration // revisions are compacted at least this often: 1 min, and at each check while a member is crowded
	CompactBytes int64         // and when the data in use grew by this much: 64 MiB
	// History is the minimum age of a revision that is compacted, 10 s, and a fifth while a member is crowded: lists read their pages at one
	// revision, and watches of slow clients fall behind. Only the healing of a cluster without space compacts younger ones.
	History time.Duration
	// A member is defragmented when this much of its file is free and that is more than half: 256 MiB. It serves
	// nothing while its data in use is rewritten, and an owner that waits longer than its fence stands loses ownership:
	// only when no more than DefragInUse must be rewritten is it worth that, 64 MiB. A busy log uses free pages again.
	// A member that its file alone crowds is defragmented whatever its data in use (defragCrowded).
	DefragBytes int64
	DefragInUse int64

	Logger     *zap.Logger           // default: none
	Registerer prometheus.Registerer // default: a private one
}

// ApplyDefaults sets the fields that are zero.
func (c *MaintainerConfig) ApplyDefaults() {
	if c.Prefix == "" {
		c.Prefix = DefaultPrefix
	}
	if c.Check == 0 {
		c.Check = 5 * time.Second
	}
	if c.Compact == 0 {
		c.Compact = time.Minute
	}
	if c.CompactBytes == 0 {
		c.CompactBytes = 64 << 20
	}
	if c.History == 0 {
		c.History = 10 * time.Second
	}
	if c.DefragBytes == 0 {
		c.DefragBytes = 256 << 20
	}
	if c.DefragInUse == 0 {
		c.DefragInUse = 64 << 20
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
}

// Validate tells every fault.
func (c *MaintainerConfig) Validate() error {
	var errs []error
	if c.Client == nil {
		errs = append(errs, errors.New("no etcd client"))
	}
	if c.Check < 10*time.Millisecond || c.Compact <= 0 {
		errs = append(errs, fmt.Errorf("check period %v and compaction period %v are too short", c.Check, c.Compact))
	}
	return errors.Join(errs...)
}

// Maintainer keeps the etcd cluster small: of all replicas that run one, the elected one compacts old revisions,
// gives free space back, and heals a cluster that ran out of space. Doing any of it twice is harmless except for defragmentations,
// so the election is a lease without fencing. Defragmentations have a key of their own (alone). In a full cluster, which takes no key, they wait
// until all members serve (noneFellSilent).
type Maintainer struct {
	cfg     MaintainerConfig
	metrics *metrics
	lease   clientv3.LeaseID // of the election, 0 when not elected

	compactedAt  time.Time
	compactedUse int64 // least data in use seen since the last compaction, which takes effect after it is answered
	compactedRev int64
	checks       []pastCheck // the newest one that is History old, and all younger ones, oldest first
	crowded      bool        // a member has reached CrowdedFrom

	rewrites map[string]rewrite   // by endpoint
	silent   map[string]time.Time // by endpoint: since when a member of a full cluster has not served
}

// pastCheck is the revision that a check saw.
type pastCheck struct {
	at       time.Time
	revision int64
}

// CrowdedFrom is the fullness of a member from which Freshet makes room in etcd.
const CrowdedFrom = 0.6

// fileMargin is subtracted from the share of the quota that the file takes. So a member is crowded by its file alone from 85 % of the quota on.
const fileMargin = 0.25

// Fullness returns the share of a member's quota that is used. It is 0 if the member has no quota or does not report one (etcd before 3.6).
//
// etcd refuses writes when the file of its database reaches the quota, and only a defragmentation makes the file smaller. But the file grows
// only while too few of its pages are free. Trimmed and compacted entries leave free pages, so the data in use decides as long as the file
// leaves room. Near the quota the file counts as well, less fileMargin, since pages can be free in the wrong places.
func Fullness(st *clientv3.StatusResponse) float64 {
	if st.DbSizeQuota <= 0 {
		return 0
	}
	quota := float64(st.DbSizeQuota)
	return max(float64(st.DbSizeInUse)/quota, float64(st.DbSize)/quota-fileMargin)
}

// crowdedByFile reports whether a member would not be crowded if its file had no free pages.
func crowdedByFile(st *clientv3.StatusResponse) bool {
	return Fullness(st) >= CrowdedFrom && float64(st.DbSizeInUse)/float64(st.DbSizeQuota) < CrowdedFrom
}

// hasRoom reports whether a member's file alone would not crowd it: it raises no NOSPACE soon.
func hasRoom(st *clientv3.StatusResponse) bool {
	return float64(st.DbSize) < float64(st.DbSizeQuota)*(CrowdedFrom+fileMargin)
}

// requestTimeout bounds one short request; defragTimeout a defragmentation, which rewrites the member's file.
const (
	requestTimeout = 2 * time.Second
	defragTimeout  = 2 * time.Minute
)

// defragTerm is the time for which a failed defragmentation keeps other members from one.
const defragTerm = 2 * defragTimeout

// minElection is the least term of an election: a maintainer that a busy machine stops for a few seconds stays the one.
const minElection = 10 * time.Second

// NewMaintainer starts nothing.
func NewMaintainer(cfg MaintainerConfig) (*Maintainer, error) {
	cfg.ApplyDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("etcd maintainer: %w", err)
	}
	return &Maintainer{cfg: cfg, metrics: newMetrics(cfg.Registerer), rewrites: map[string]rewrite{}, silent: map[string]time.Time{}}, nil
}

// Run looks after the cluster until ctx ends.
func (m *Maintainer) Run(ctx context.Context) error {
	defer m.stepDown(context.WithoutCancel(ctx))
	for {
		if err := m.check(ctx); err != nil && ctx.Err() == nil {
			m.metrics.failures.Inc()
			m.cfg.Logger.Warn("etcd upkeep failed", zap.Error(err))
		}
		pause := m.cfg.Check
		if m.crowded {
			pause /= 5
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

func (m *Maintainer) check(ctx context.Context) error {
	elected, err := m.elect(ctx)
	if isNoSpace(err) {
		// No election can succeed in a full cluster. Several replicas may heal the cluster at once: see noneFellSilent.
		elected, err = true, nil
	}
	if err != nil {
		return err
	}
	if !elected {
		clear(m.silent) // they belong to one time without space
		return nil
	}
	members, err := m.members(ctx)
	if err != nil {
		return err
	}
	full, err := m.outOfSpace(ctx)
	if err != nil {
		return err
	}
	if full {
		return m.heal(ctx, members)
	}
	clear(m.silent)
	return errors.Join(m.compact(ctx, members), m.defragOne(ctx, members))
}

// elect takes or keeps the maintainer's key. Its lease outlasts three checks. A key without a lease is no maintainer's, and would
// never expire: compactions would end.
func (m *Maintainer) elect(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*requestTimeout)
	defer cancel()
	if m.lease != 0 {
		if _, err := m.cfg.Client.KeepAliveOnce(ctx, m.lease); err == nil {
			return true, nil
		}
		m.lease = 0
	}
	key := m.cfg.Prefix + "/maintainer"
	held, err := m.cfg.Client.Get(ctx, key) // with the value: without, the lease is not told
	if err != nil {
		return false, fmt.Errorf("read the maintainer's key: %w", err)
	}
	before := int64(0)
	for _, kv := range held.Kvs {
		if before = kv.ModRevision; kv.Lease != 0 {
			return false, nil
		}
	}
	m.lease, err = m.claim(ctx, key, before, max(3*m.cfg.Check, minElection))
	return m.lease != 0, err
}

// claim writes this replica's id to a key under a new lease, or returns 0 if the key changed after a revision.
func (m *Maintainer) claim(ctx context.Context, key string, after int64, term time.Duration) (clientv3.LeaseID, error) {
	grant, err := m.cfg.Client.Grant(ctx, int64(term/time.Second))
	if err != nil {
		return 0, fmt.Errorf("grant a lease for %s: %w", key, err)
	}
	resp, err := m.cfg.Client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(key), "=", after)).
		Then(clientv3.OpPut(key, m.cfg.Replica, clientv3.WithLease(grant.ID))).
		Commit()
	if err != nil {
		return 0, fmt.Errorf("claim %s: %w", key, err)
	}
	if !resp.Succeeded {
		_, err := m.cfg.Client.Revoke(ctx, grant.ID)
		return 0, err
	}
	return grant.ID, nil
}

// alone calls defrag unless a replica has a member defragmented: two members that are defragmented at once may leave no quorum. The election does not
// exclude that. It may end during a long defragmentation, whose member may be the one that should renew it. etcd also goes on with a defragmentation
// whose request has ended or whose replica is gone. So if defrag fails, the key stays for defragTerm.
func (m *Maintainer) alone(ctx context.Context, defrag func() error) error {
	claiming, cancel := context.WithTimeout(ctx, 3*requestTimeout)
	defer cancel()
	lease, err := m.claim(claiming, m.cfg.Prefix+"/defragmentation", 0, defragTerm)
	if err != nil || lease == 0 {
		return err
	}
	if err := defrag(); err != nil {
		return err
	}
	revoking, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if _, err := m.cfg.Client.Revoke(revoking, lease); err != nil {
		return fmt.Errorf("end the claim of a defragmentation: %w", err)
	}
	return nil
}

func (m *Maintainer) stepDown(ctx context.Context) {
	if m.lease == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if _, err := m.cfg.Client.Revoke(ctx, m.lease); err != nil {
		m.cfg.Logger.Debug("maintainer's lease not revoked", zap.Error(err))
	}
}

// member is one etcd member as of this check.
type member struct {
	id       uint64
	endpoint string
	leader   bool
	learner  bool
	size     int64 // of the backend file
	inUse    int64
	fullness float64
	byFile   bool // crowdedByFile
	room     bool // hasRoom
	revision int64
}

// members returns the members that answer. The leader is last, so that it is disturbed last.
func (m *Maintainer) members(ctx context.Context) ([]member, error) {
	var others, leaders []member
	var errs []error
	for _, ep := range endpoints(m.cfg.Client) {
		st, err := status(ctx, m.cfg.Client, ep)
		if err != nil {
			errs = append(errs, fmt.Errorf("status of etcd member %s: %w", ep, err))
			continue
		}
		mb := member{
			id: st.Header.MemberId, endpoint: ep, leader: st.Leader == st.Header.MemberId, learner: st.IsLearner,
			size: st.DbSize, inUse: st.DbSizeInUse, fullness: Fullness(st), byFile: crowdedByFile(st), room: hasRoom(st),
			revision: st.Header.Revision,
		}
		m.metrics.dbBytes.WithLabelValues(ep).Set(float64(mb.size))
		if mb.leader {
			leaders = append(leaders, mb)
		} else {
			others = append(others, mb)
		}
	}
	if all := append(others, leaders...); len(all) > 0 {
		return all, nil
	}
	return nil, errors.Join(errs...)
}

func (m *Maintainer) outOfSpace(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	alarms, err := m.cfg.Client.AlarmList(ctx)
	if err != nil {
		return false, fmt.Errorf("list etcd alarms: %w", err)
	}
	for _, a := range alarms.Alarms {
		if a.Alarm == pb.AlarmType_NOSPACE {
			return true, nil
		}
	}
	return false, nil
}

// compact drops the revisions that are older than History. A reader that needs one of them begins anew.
func (m *Maintainer) compact(ctx context.Context, members []member) error {
	leader := members[len(members)-1]
	m.crowded = slices.ContainsFunc(members, func(mb member) bool { return mb.fullness >= CrowdedFrom })
	history := m.cfg.History
	if m.crowded {
		history /= 5
	}
	revision := m.compactable(time.Now(), leader.revision, history)
	m.compactedUse = min(m.compactedUse, leader.inUse)
	due := m.crowded || time.Since(m.compactedAt) >= m.cfg.Compact || leader.inUse-m.compactedUse >= m.cfg.CompactBytes
	if revision <= m.compactedRev || !due {
		return nil
	}
	m.compactedAt, m.compactedUse, m.compactedRev = time.Now(), leader.inUse, revision
	return m.compactTo(ctx, revision)
}

// compactable returns the newest revision that a check at least history before now saw, 0 for none. current is the one that this check sees.
func (m *Maintainer) compactable(now time.Time, current int64, history time.Duration) int64 {
	m.checks = append(m.checks, pastCheck{now, current})
	old := 0
	for old < len(m.checks) && now.Sub(m.checks[old].at) >= history {
		old++
	}
	if old == 0 {
		return 0
	}
	m.checks = slices.Delete(m.checks, 0, old-1)
	return m.checks[0].revision
}

func (m *Maintainer) compactTo(ctx context.Context, revision int64, opts ...clientv3.CompactOption) error {
	ctx, cancel := context.WithTimeout(ctx, defragTimeout)
	defer cancel()
	if _, err := m.cfg.Client.Compact(ctx, revision, opts...); err != nil && !isCompacted(err) {
		return fmt.Errorf("compact etcd to revision %d: %w", revision, err)
	}
	m.metrics.compactions.Inc()
	return nil
}

// defragOne gives back the free space of at most one member per check.
func (m *Maintainer) defragOne(ctx context.Context, members []member) error {
	for _, mb := range members {
		free := mb.size - mb.inUse
		if free >= m.cfg.DefragBytes && free > mb.size/2 && mb.inUse <= m.cfg.DefragInUse {
			return m.alone(ctx, func() error { return m.defrag(ctx, mb) })
		}
	}
	return m.defragCrowded(ctx, members)
}

func (m *Maintainer) defrag(ctx context.Context, mb member) error {
	ctx, cancel := context.WithTimeout(ctx, defragTimeout)
	defer cancel()
	start := time.Now()
	if _, err := m.cfg.Client.Defragment(ctx, mb.endpoint); err != nil {
		return fmt.Errorf("defragment etcd member %s: %w", mb.endpoint, err)
	}
	m.metrics.defrags.Inc()
	m.cfg.Logger.Info("defragmented etcd member", zap.String("endpoint", mb.endpoint),
		zap.Int64("bytes_before", mb.size), zap.Int64("bytes_in_use", mb.inUse), zap.Duration("took", time.Since(start)))
	return nil
}
