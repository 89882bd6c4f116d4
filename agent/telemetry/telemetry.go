package telemetry

import (
	"cmp"
	"container/list"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/freshet-io/freshet/internal/clientmetrics"
)

// Bounds. Those with a Kafka name have Kafka's value.
const (
	// MaxBytes is the largest push, compressed (telemetry.max.bytes).
	MaxBytes = 1 << 20
	// maxInflated bounds a push's metrics uncompressed.
	maxInflated = 4 << 20
	// maxClients bounds the clients remembered (CACHE_MAX_SIZE); the one heard of longest ago goes.
	maxClients = 16384
	// minExpiry is how long a client is remembered at least (DEFAULT_CACHE_EXPIRY_MS).
	minExpiry = time.Minute
	// maxPoints bounds the points read of one push.
	maxPoints = 4096
	// maxClientSeries and maxSeries bound the series of a client, and of all of them.
	maxClientSeries = 512
	maxSeries       = 16384
	// maxAttributes bounds the attributes of a point, maxLabel the bytes of a label's value. All attributes of a point are one label.
	maxAttributes = 16
	maxLabel      = 256
)

// Errors of Get and Push, each of which is one of Kafka's.
var (
	ErrThrottled           = errors.New("telemetry: before the next push interval")   // THROTTLING_QUOTA_EXCEEDED
	ErrTerminated          = errors.New("telemetry: the client has said its last")    // INVALID_REQUEST
	ErrUnknownSubscription = errors.New("telemetry: the subscription changed")        // UNKNOWN_SUBSCRIPTION_ID
	ErrTooLarge            = errors.New("telemetry: larger than is taken")            // TELEMETRY_TOO_LARGE
	ErrInvalid             = errors.New("telemetry: metrics data cannot be read")     // INVALID_RECORD
	ErrCompression         = errors.New("telemetry: compression type does not exist") // UNSUPPORTED_COMPRESSION_TYPE
)

// InstanceID is a client's UUID.
type InstanceID [16]byte

// String writes it as Kafka does.
func (i InstanceID) String() string { return base64.RawURLEncoding.EncodeToString(i[:]) }

// reserved ids are never given: zero, and one that Kafka keeps for itself (Uuid.RESERVED).
func (i InstanceID) reserved() bool { return i == InstanceID{} || i == InstanceID{15: 1} }

// Config of Telemetry. Zero values mean the defaults.
type Config struct {
	Now        func() time.Time      // default time.Now
	Random     io.Reader             // of instance ids; no default
	Registerer prometheus.Registerer // default: none
}

// Telemetry knows the clients of one agent and what they pushed. Safe for concurrent use.
type Telemetry struct {
	cfg         Config
	metrics     *metrics
	subscribing sync.Mutex // held by Subscribe while it compiles patterns
	mu          struct {
		sync.Mutex
		subscriptions []subscription // by name
		version       uint64         // of subscriptions
		unions        map[string][]string
		clients       map[InstanceID]*client
		heard         *list.List // of *client, the one heard of longest ago first
		series        int        // of all clients
	}
}

// client is a client that asked for its subscription.
type client struct {
	id           InstanceID
	name         string // id as label
	label        string // client id as label
	version      uint64 // of the subscriptions of the following fields
	subscription int32
	metrics      []string
	interval     time.Duration
	lastGet      time.Time
	lastPush     time.Time
	terminating  bool
	expires      time.Time
	at           *list.Element
	series       map[series]float64
}

// series is one number of a client.
type series struct {
	metric, attributes string
	sum                bool
}

// New makes a Telemetry without subscriptions.
func New(cfg Config) *Telemetry {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Registerer = cmp.Or[prometheus.Registerer](cfg.Registerer, prometheus.NewRegistry())
	t := &Telemetry{cfg: cfg, metrics: newMetrics(cfg.Registerer)}
	t.mu.clients, t.mu.heard, t.mu.unions = map[InstanceID]*client{}, list.New(), map[string][]string{}
	cfg.Registerer.MustRegister(t)
	return t
}

// Subscribe replaces the subscriptions: configs by name, as of a version, which rises with every change. An equal version
// is no change. A subscription that cannot be parsed asks for nothing; the owner refuses such ones.
func (t *Telemetry) Subscribe(version uint64, configs map[string]map[string]string) {
	t.subscribing.Lock()
	defer t.subscribing.Unlock()
	t.mu.Lock()
	known, old := t.mu.subscriptions, t.mu.version
	t.mu.Unlock()
	if version <= old {
		return
	}
	all := make([]subscription, 0, len(configs))
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		parsed := subscription{name: name, configs: configs[name]}
		i := slices.IndexFunc(known, func(k subscription) bool { return k.name == name && maps.Equal(k.configs, parsed.configs) })
		if i >= 0 {
			all = append(all, known[i])
		} else if s, err := clientmetrics.Parse(name, parsed.configs); err == nil && len(all) < clientmetrics.MaxSubscriptions {
			parsed.Subscription = s
			all = append(all, parsed)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.subscriptions, t.mu.version = all, version
	clear(t.mu.unions)
}

// subscription is a parsed subscription and its configs.
type subscription struct {
	*clientmetrics.Subscription
	name    string
	configs map[string]string
}

// maxUnions bounds the distinct lists of metrics that clients share.
const maxUnions = 256

// union returns a list of metrics that is shared by the clients with an equal one.
func (t *Telemetry) union(metrics []string) []string {
	key := strings.Join(metrics, ",")
	if shared, ok := t.mu.unions[key]; ok {
		return shared
	}
	if len(t.mu.unions) >= maxUnions {
		clear(t.mu.unions)
	}
	t.mu.unions[key] = slices.Clip(metrics)
	return t.mu.unions[key]
}

// Answer tells a client what to push.
type Answer struct {
	ID           InstanceID
	Subscription int32
	Metrics      []string // prefixes of names, "*" is all; empty is none
	Interval     time.Duration
}

// Get answers a client that asks what to push; a zero id gets a new one. Errors: ErrThrottled.
func (t *Telemetry) Get(id InstanceID, about clientmetrics.Client) (Answer, error) {
	if id == (InstanceID{}) {
		var err error
		if id, err = t.newID(); err != nil {
			return Answer{}, err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.cfg.Now()
	c := t.client(id, about)
	last := c.lastGet
	if c.lastPush.After(last) {
		last = c.lastPush
	}
	if now.Sub(last) < c.interval {
		return Answer{}, ErrThrottled
	}
	c.lastGet = now
	return Answer{ID: id, Subscription: c.subscription, Metrics: c.metrics, Interval: c.interval}, nil
}

// newID gives a random UUID (version 4).
func (t *Telemetry) newID() (id InstanceID, err error) {
	for id.reserved() {
		if _, err := io.ReadFull(t.cfg.Random, id[:]); err != nil {
			return id, fmt.Errorf("client instance id: %w", err)
		}
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id, nil
}

// client finds a client, or makes one, brings it up to the subscriptions, and puts its end off. Called with the lock.
func (t *Telemetry) client(id InstanceID, about clientmetrics.Client) *client {
	t.expire()
	c := t.mu.clients[id]
	if c == nil {
		c = &client{id: id, name: id.String(), label: label(about.ClientID), series: map[series]float64{}}
		c.at = t.mu.heard.PushBack(c)
		t.mu.clients[id] = c
		if len(t.mu.clients) > maxClients {
			t.metrics.evicted.Inc()
			t.forget(t.mu.heard.Front().Value.(*client))
		}
		t.subscribe(c, about)
	}
	if c.version != t.mu.version {
		c.lastGet, c.lastPush, c.terminating = time.Time{}, time.Time{}, false
		t.subscribe(c, about)
	}
	c.expires = t.cfg.Now().Add(max(minExpiry, 3*c.interval))
	t.mu.heard.MoveToBack(c.at)
	return c
}

// subscribe finds what a client is to push: the union of the subscriptions that match it, at the shortest interval.
func (t *Telemetry) subscribe(c *client, about clientmetrics.Client) {
	about.InstanceID = c.name
	c.version, c.metrics, c.interval = t.mu.version, nil, clientmetrics.DefaultInterval
	budget := clientmetrics.NewBudget()
	for _, s := range t.mu.subscriptions {
		if s.Matches(&about, budget) {
			c.metrics = append(c.metrics, s.Metrics...)
			c.interval = min(c.interval, s.Interval)
		}
	}
	slices.Sort(c.metrics)
	c.metrics = slices.Compact(c.metrics)
	if slices.Contains(c.metrics, clientmetrics.Every) {
		c.metrics = []string{clientmetrics.Every}
	}
	c.metrics = t.union(c.metrics)
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	_, _ = io.WriteString(sum, strings.Join(c.metrics, ",")) // a hash has no errors
	_ = binary.Write(sum, binary.BigEndian, int64(c.interval))
	_, _ = sum.Write(c.id[:])
	c.subscription = int32(sum.Sum32())
}

// expire forgets clients whose time is over. Called with the lock. The list is by when they were heard of, and
// intervals differ: what comes later than one that stays is found later.
func (t *Telemetry) expire() {
	now := t.cfg.Now()
	for e := t.mu.heard.Front(); e != nil; e = t.mu.heard.Front() {
		c := e.Value.(*client)
		if c.expires.After(now) {
			return
		}
		t.forget(c)
	}
}

func (t *Telemetry) forget(c *client) {
	t.mu.series -= len(c.series)
	t.mu.heard.Remove(c.at)
	delete(t.mu.clients, c.id)
}

// label returns the valid UTF-8 of the first maxLabel bytes of a string. It keeps no reference to a longer one.
func label(s string) string {
	if len(s) > maxLabel {
		s = strings.Clone(s[:maxLabel])
	}
	return strings.ToValidUTF8(s, "")
}
