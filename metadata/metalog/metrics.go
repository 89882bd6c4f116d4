package metalog

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	appendSeconds  prometheus.Histogram
	appendedBytes  prometheus.Counter
	failedAttempts prometheus.Counter
	tenuresLost    prometheus.Counter
}

// newMetrics registers the metrics, or reuses the metrics of an earlier log of this process: the logs of
// all virtual clusters count together.
func newMetrics(reg prometheus.Registerer) *metrics {
	return &metrics{
		appendSeconds: register(reg, prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "freshet_metalog_append_seconds",
			Help:    "Time to make one metadata log entry durable, retries included.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		})),
		appendedBytes: register(reg, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_metalog_appended_bytes_total",
			Help: "Payload bytes appended to metadata logs.",
		})),
		failedAttempts: register(reg, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_metalog_failed_attempts_total",
			Help: "Requests to the metadata log's store that failed or were not answered in time.",
		})),
		tenuresLost: register(reg, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_metalog_tenures_lost_total",
			Help: "Tenures that ended without being resigned.",
		})),
	}
}

// leaseMetrics are those of a replica's lease.
type leaseMetrics struct {
	renewals prometheus.Counter
	failed   prometheus.Counter
	lost     prometheus.Counter
	watches  prometheus.Counter
	views    prometheus.Counter
}

func newLeaseMetrics(reg prometheus.Registerer) *leaseMetrics {
	return &leaseMetrics{
		renewals: register(reg, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_metalog_renewals_total",
			Help: "Renewals of the replica's lease in the metadata log's store that succeeded. One lease holds the ownership of all virtual clusters.",
		})),
		failed: register(reg, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_metalog_failed_renewals_total",
			Help: "Renewals of the replica's lease that failed or were not answered in time.",
		})),
		lost: register(reg, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_metalog_leases_lost_total",
			Help: "Leases of the replica that ended while it ran. Each ends the tenures of all virtual clusters that the replica owns.",
		})),
		watches: register(reg, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_metalog_owner_watches_broken_total",
			Help: "Watches of ownership keys that broke or fell behind. Each makes the replica read all ownership keys anew.",
		})),
		views: register(reg, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "freshet_metalog_owner_views_lost_total",
			Help: "Times that the replica no longer knew the ownership keys to be current. Each ends the tenures of all virtual clusters that the replica owns.",
		})),
	}
}

func register[C prometheus.Collector](reg prometheus.Registerer, c C) C {
	if err := reg.Register(c); err != nil {
		var already prometheus.AlreadyRegisteredError
		if errors.As(err, &already) {
			if existing, ok := already.ExistingCollector.(C); ok {
				return existing
			}
		}
		panic(err) // two metrics of one name: a programming error
	}
	return c
}
