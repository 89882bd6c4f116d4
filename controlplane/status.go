package controlplane

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/freshet-io/freshet/controlplane/operator"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/internal/grpcerr"
	"github.com/freshet-io/freshet/metadata/metalog/etcdlog"
	"github.com/freshet-io/freshet/objstore/open"
)

// statusTimeout bounds the questions for a status to etcd's members, the object store, the other replicas and the owner. They run side by
// side.
const statusTimeout = 2 * time.Second

// recent is the maximum age of answers that a further call reuses. It bounds the questions that a loop of calls causes.
const recent = time.Second

// statuses answers operators' questions for the status of virtual clusters and of the control plane.
type statuses struct {
	plane     *ControlPlane
	began     time.Time // start of this replica
	peers     *peers
	forwarder *operator.Forwarder
	looks     singleflight.Group // concurrent calls share one look
	looked    look               // the last one, written by looks
}

// look has the answers of etcd's members as of a time. Those of the other replicas are in peers.
type look struct {
	etcd []operator.EtcdMember
	at   time.Time
}

// of returns the status of a virtual cluster. It takes little more than statusTimeout at most.
func (s *statuses) of(ctx context.Context, c *cluster) *operator.Status {
	status := &operator.Status{VirtualCluster: c.spec.Name, Agents: []session.AgentInfo{}}
	var asked sync.WaitGroup
	asked.Go(func() { status.Plane = s.ask(ctx) })
	var list *session.AgentList
	var listFault error
	asked.Go(func() { list, listFault = s.agents(ctx, c) })
	asked.Wait()

	if list != nil {
		status.Agents, status.MoreAgents, status.AgentsAge = list.Agents, list.More, ptr(max(0, time.Since(list.At).Seconds()))
	} else if listFault != nil {
		status.AgentsFault = listFault.Error()
	}
	s.find(status, c)
	return status
}

// ofPlane returns the status of the control plane. It takes little more than statusTimeout at most.
func (s *statuses) ofPlane(ctx context.Context) *operator.Plane {
	plane := s.ask(ctx)
	s.findEtcd(&plane)
	s.findStore(&plane)
	plane.Find()
	return &plane
}

// ask returns the status of the control plane without findings.
func (s *statuses) ask(ctx context.Context) operator.Plane {
	cfg := &s.plane.cfg
	plane := operator.Plane{Replica: cfg.ReplicaID, Findings: []operator.Finding{}}
	var asked sync.WaitGroup
	asked.Go(func() { plane.Etcd = s.shared().etcd })
	asked.Go(func() { plane.Store = s.store(ctx) })
	asked.Wait()
	now := time.Now()
	plane.Replicas = append(s.peers.list(now), operator.Replica{
		Replica: cfg.ReplicaID, Address: cfg.Advertise, HTTP: s.plane.httpAddress(), Version: cfg.Version, Uptime: ptr(now.Sub(s.began).Seconds()),
	})
	slices.SortFunc(plane.Replicas, func(a, b operator.Replica) int {
		return cmp.Or(strings.Compare(a.Replica, b.Replica), strings.Compare(a.Address, b.Address))
	})
	return plane
}

// silent returns the findings about registered replicas. One whose lease has ended is none: it may have been removed for good.
func (s *statuses) silent() (texts []string) {
	registered := s.peers.members.others()
	var plane operator.Plane
	plane.Replicas = slices.DeleteFunc(s.peers.list(time.Now()), func(r operator.Replica) bool {
		return !slices.ContainsFunc(registered, func(m member) bool { return m.id == r.Replica && m.address == r.Address })
	})
	plane.Find()
	for _, f := range plane.Findings {
		texts = append(texts, f.Text)
	}
	return texts
}

func (s *statuses) findStore(plane *operator.Plane) {
	if plane.Store.Fault != "" {
		plane.Add(operator.AboutStore, plane.Store.Address, plane.Store.Fault, plane.Store.Since)
	}
}

// find adds the owner and the findings.
func (s *statuses) find(status *operator.Status, c *cluster) {
	etcdFault := s.findEtcd(&status.Plane)
	s.findStore(&status.Plane)
	owner, owned := c.located()
	unready := s.plane.readyCluster(c)
	self, unknown := "replica "+status.Replica+": ", time.Time{}
	switch {
	case owned:
		status.Owner = &operator.Owner{Replica: owner.Replica, Address: owner.Address}
		if unready != nil {
			status.Add(operator.AboutReplica, s.plane.cfg.Advertise, self+unready.Error(), unknown)
		}
	case unready == nil || etcdFault:
		status.Add(operator.AboutOwner, c.spec.Name, "virtual cluster "+c.spec.Name+" has no owner", unknown)
	default:
		status.Add(operator.AboutOwner, c.spec.Name, unready.Error(), unknown)
	}
	if warning := c.warning(); warning != "" {
		status.Add(operator.AboutClock, s.plane.cfg.Advertise, self+warning, unknown)
	}
	status.Find()
}

// findEtcd adds the findings about etcd's members, and reports whether the members' last round failed.
func (s *statuses) findEtcd(status *operator.Plane) (failed bool) {
	var faulty []string
	for _, m := range status.Etcd {
		if m.Fault != "" {
			faulty = append(faulty, m.Address)
		}
	}
	if since, fault := s.plane.members.health.faultSince(); fault != nil {
		if len(faulty) == 0 {
			faulty = []string{s.plane.members.health.addresses()}
		}
		status.Add(operator.AboutEtcd, strings.Join(faulty, ", "), fault.Error(), since)
		return true
	}
	for _, m := range status.Etcd {
		if m.Fault != "" {
			status.Add(operator.AboutEtcd, m.Address, "etcd at "+m.Address+" "+m.Fault, time.Time{})
		}
	}
	return false
}

// shared returns a recent look. Concurrent calls share one.
func (s *statuses) shared() look {
	found, _, _ := s.looks.Do("", func() (any, error) { return s.look(), nil })
	return found.(look)
}

// look asks etcd's members and, beside their watch, the other replicas. It returns the last look if that is recent. No caller's context
// ends it, because callers share it.
func (s *statuses) look() look {
	if time.Since(s.looked.at) < recent {
		return s.looked
	}
	ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
	defer cancel()
	var found look
	var asked sync.WaitGroup
	asked.Go(func() { s.peers.round(ctx) })
	asked.Go(func() { found.etcd = s.plane.members.health.members(ctx) })
	asked.Wait()
	found.at = time.Now()
	s.looked = found
	return found
}

// store asks the object store, unless its last check is recent.
func (s *statuses) store(ctx context.Context) operator.Store {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	location := s.plane.cfg.BucketLocation
	answer := operator.Store{Location: location, Address: open.Address(location)}
	if fault := s.plane.store.Check(ctx); fault != nil {
		answer.Fault, answer.Since = fault.Error(), fault.Since
	}
	return answer
}

// members asks each member for its status, for at most memberTimeout.
func (h *etcdHealth) members(ctx context.Context) []operator.EtcdMember {
	endpoints := h.client.Endpoints()
	if len(endpoints) == 0 {
		endpoints = []string{h.addresses()}
	}
	members := make([]operator.EtcdMember, len(endpoints))
	var asked sync.WaitGroup
	for i, endpoint := range endpoints {
		asked.Go(func() { members[i] = h.member(ctx, endpoint) })
	}
	asked.Wait()
	return members
}

func (h *etcdHealth) member(ctx context.Context, endpoint string) operator.EtcdMember {
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	m := operator.EtcdMember{Address: etcdlog.Address(endpoint)}
	began := time.Now()
	answer, err := h.client.Status(ctx, endpoint)
	switch {
	case err != nil && etcdlog.TimedOut(err):
		m.Fault = "does not answer" + h.unreached(m.Address)
	case err != nil:
		m.Fault = "refuses requests (" + grpcerr.Plain(err).Error() + ")"
	default:
		m.Latency, m.Leader = time.Since(began).Seconds(), answer.Leader == answer.Header.MemberId
		m.Used, m.Allowed = answer.DbSize, answer.DbSizeQuota
		if len(answer.Errors) > 0 {
			m.Fault = "reports " + strings.Join(answer.Errors, "; ")
		}
	}
	return m
}

// agents returns the agents as the owner knows them. If the last list is recent or the owner does not answer, agents returns the last
// list that this replica has. The error is returned without a list.
func (s *statuses) agents(ctx context.Context, c *cluster) (*session.AgentList, error) {
	if list, ok := c.sessions.Agents(); ok {
		return list, nil
	}
	if last := c.sessions.LastAgents(); last != nil && time.Since(last.At) < recent {
		return last, nil
	}
	list, err := s.askOwner(ctx, c)
	if err == nil {
		c.sessions.NoteAgents(list)
		return list, nil
	}
	return c.sessions.LastAgents(), err
}

// askOwner asks the owner for the agents.
func (s *statuses) askOwner(ctx context.Context, c *cluster) (*session.AgentList, error) {
	owner, ok := c.located()
	if !ok {
		return nil, errNoOwner
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	status, body, err := s.forwarder.Get(ctx, owner.Address, c.members.replicaKey(), operator.Prefix+c.spec.Name+"/agents")
	switch {
	case err != nil:
		return nil, fmt.Errorf("ask the owner, replica %s at %s: %w", owner.Replica, owner.Address, err)
	case status == http.StatusNotFound:
		return nil, errors.New("the owner is of an older version")
	case status != http.StatusOK:
		return nil, fmt.Errorf("ask the owner, replica %s at %s: status %d", owner.Replica, owner.Address, status)
	}
	list := &session.AgentList{At: time.Now()}
	if err := json.Unmarshal(body, list); err != nil {
		return nil, fmt.Errorf("agents in the owner's answer: %w", err)
	}
	return list, nil
}
