package javaconfig

import (
	"math"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// consumer maps what consumers have.
func consumer(r *reader) ConsumerClient {
	common(r)
	if r.has("client.rack") {
		r.use(kgo.Rack(r.text("client.rack")))
	}
	fetching(r)
	membership(r)
	c := ConsumerClient{
		AutoCommit:     r.boolean("enable.auto.commit", true),
		MaxPollRecords: int(r.number("max.poll.records", 0, 1, math.MaxInt32)),
	}
	interval := r.millis("auto.commit.interval.ms", 5*time.Second, 100*time.Millisecond, math.MaxInt32*time.Millisecond)
	if c.AutoCommit {
		r.use(kgo.AutoCommitInterval(interval))
	} else {
		r.use(kgo.DisableAutoCommit())
	}
	return c
}

// fetching maps sizes, waiting and where reading starts.
func fetching(r *reader) {
	size := func(name string, standard, low int64) int32 {
		return int32(r.within(name, r.number(name, standard, low, math.MaxInt32), low, largest-mebi))
	}
	most := size("fetch.max.bytes", 50*mebi, 0)
	r.use(kgo.FetchMinBytes(size("fetch.min.bytes", 1, 0)), kgo.FetchMaxBytes(most))
	// A first batch larger than what was asked for comes all the same.
	r.use(kgo.BrokerMaxReadBytes(max(100*mebi, min(most, largest/2)*2)))
	r.use(kgo.FetchMaxPartitionBytes(size("max.partition.fetch.bytes", mebi, 0)))
	r.use(kgo.FetchMaxWait(r.millis("fetch.max.wait.ms", 500*time.Millisecond, 10*time.Millisecond, math.MaxInt32*time.Millisecond)))
	switch reset := r.choice("auto.offset.reset", "latest", "earliest", "none"); reset {
	case "earliest":
		r.use(kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	case "none":
		r.use(kgo.ConsumeStartOffset(kgo.NewOffset().AtCommitted()), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	default:
		r.use(kgo.ConsumeStartOffset(kgo.NewOffset().AtEnd()), kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()))
	}
	if r.choice("isolation.level", "read_uncommitted", "read_committed") == "read_committed" {
		r.use(kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	if !r.boolean("check.crcs", true) {
		r.use(kgo.DisableFetchCRCValidation())
	}
	if r.boolean("allow.auto.create.topics", true) {
		r.use(kgo.AllowAutoTopicCreation())
	}
}

// membership maps the life in a group.
func membership(r *reader) {
	longest := math.MaxInt32 * time.Millisecond
	session := r.millis("session.timeout.ms", 45*time.Second, 100*time.Millisecond, longest)
	heartbeat := r.millis("heartbeat.interval.ms", 3*time.Second, time.Millisecond, longest)
	if heartbeat >= session {
		r.fault("heartbeat.interval.ms", "must be below session.timeout.ms, %d", session.Milliseconds())
	}
	if r.has("group.instance.id") {
		r.use(kgo.InstanceID(r.text("group.instance.id")))
	}
	// Java hands this in as the time that a member has to join again.
	rebalance := r.millis("max.poll.interval.ms", 5*time.Minute, 100*time.Millisecond, longest)
	r.use(kgo.SessionTimeout(session), kgo.HeartbeatInterval(heartbeat), kgo.RebalanceTimeout(rebalance))
	balancers := assignors(r)
	if r.choice("group.protocol", "classic", "consumer") == "classic" {
		r.use(kgo.Balancers(balancers...))
		r.text("group.remote.assignor")
		return
	}
	r.use(kgo.ServerSideBalancer())
	if r.choice("group.remote.assignor", "uniform", "range") == "range" {
		r.use(kgo.Balancers(kgo.RangeBalancer()))
	} else {
		r.use(kgo.Balancers(kgo.StickyBalancer()))
	}
}

// assignors maps partition.assignment.strategy, by the last part of the classes' names.
func assignors(r *reader) []kgo.GroupBalancer {
	const name = "partition.assignment.strategy"
	standard := []kgo.GroupBalancer{kgo.RangeBalancer(), kgo.CooperativeStickyBalancer()}
	var chosen []kgo.GroupBalancer
	for _, class := range r.list(name) {
		switch class[strings.LastIndexByte(class, '.')+1:] {
		case "RangeAssignor", "range":
			chosen = append(chosen, kgo.RangeBalancer())
		case "RoundRobinAssignor", "roundrobin":
			chosen = append(chosen, kgo.RoundRobinBalancer())
		case "StickyAssignor", "sticky":
			chosen = append(chosen, kgo.StickyBalancer())
		case "CooperativeStickyAssignor", "cooperative-sticky":
			chosen = append(chosen, kgo.CooperativeStickyBalancer())
		default:
			r.fault(name, "allowed are RangeAssignor, RoundRobinAssignor, StickyAssignor and CooperativeStickyAssignor of org.apache.kafka.clients.consumer")
		}
	}
	if len(chosen) == 0 {
		return standard
	}
	return chosen
}
