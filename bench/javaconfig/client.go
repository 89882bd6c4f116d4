package javaconfig

import (
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Client is what a configuration comes to.
type Client struct {
	Options  []kgo.Opt
	Warnings []string // properties that are ignored or not met exactly, by name
}

// ConsumerClient is what a consumer's configuration comes to.
type ConsumerClient struct {
	Client
	AutoCommit     bool // the client commits by itself; if not, whoever polls should
	MaxPollRecords int  // most records of one poll, 0 if not given: Java's default of 500 has no effect but on its caller
}

// Producer maps a producer's configuration, common properties included. RecordBytes is the size of the largest record
// to be sent, key and headers included.
func Producer(p Properties, recordBytes int) (Client, error) {
	r := newReader(p)
	producer(r, recordBytes)
	return r.finish(func(r *reader) { consumer(r) })
}

// Consumer maps a consumer's configuration, common properties included.
func Consumer(p Properties) (ConsumerClient, error) {
	r := newReader(p)
	c := consumer(r)
	var err error
	c.Client, err = r.finish(func(r *reader) { producer(r, 0) })
	return c, err
}

// Admin maps an admin client's configuration; properties of producers and consumers say nothing to it.
func Admin(p Properties) (Client, error) {
	r := newReader(p)
	common(r)
	return r.finish(func(r *reader) { producer(r, 0) }, func(r *reader) { consumer(r) })
}

// common maps what all clients have.
func common(r *reader) {
	if servers := r.list("bootstrap.servers"); len(servers) > 0 {
		r.use(kgo.SeedBrokers(servers...))
	} else {
		r.fault("bootstrap.servers", "at least one host:port is needed")
	}
	if r.has("client.id") {
		r.use(kgo.ClientID(r.text("client.id")))
	}
	age := r.millis("metadata.max.age.ms", 5*time.Minute, 10*time.Millisecond, time.Hour)
	r.use(kgo.MetadataMaxAge(age), kgo.MetadataMinAge(min(age, 2500*time.Millisecond)))
	r.use(kgo.ConnIdleTimeout(r.millis("connections.max.idle.ms", 9*time.Minute, 100*time.Millisecond, 15*time.Minute)))
	r.use(kgo.DialTimeout(r.millis("socket.connection.setup.timeout.ms", 10*time.Second, time.Millisecond, 15*time.Minute)))
	r.use(kgo.RequestTimeoutOverhead(r.millis("request.timeout.ms", 30*time.Second, 100*time.Millisecond, 15*time.Minute)))
	backoff(r)
	security(r)
}

// backoff doubles from retry.backoff.ms up to retry.backoff.max.ms, which Java has since KIP-580.
func backoff(r *reader) {
	first := r.millis("retry.backoff.ms", 100*time.Millisecond, 0, time.Hour)
	last := r.millis("retry.backoff.max.ms", time.Second, 0, time.Hour)
	r.use(kgo.RetryBackoffFn(func(tries int) time.Duration {
		doubled := float64(first) * math.Pow(2, float64(max(0, tries-1)))
		return time.Duration(min(doubled, float64(max(first, last))))
	}))
}
