package controlplane

import (
	"context"
	"time"

	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/marker"
)

// useBuckets sets the check of each bucket, with the facts that they have in common. failed is called after requests to the state bucket
// without an answer.
func (s *stored) useBuckets(cfg *Config, common bucketFacts, failed func(began time.Time)) {
	state := common
	state.bucket, state.location, state.setting, state.state, state.failed = cfg.StateBucket, cfg.StateBucketLocation, "--state-bucket", true, failed
	if cfg.StateBucket == cfg.Bucket {
		state.setting, state.records = "--bucket", true
	}
	state.gate = marker.NewGate(state.bucket)
	s.state = &bucketCheck{bucketFacts: state}
	s.records = s.state
	if state.records {
		return
	}
	records := common
	records.bucket, records.location, records.setting, records.records = cfg.Bucket, cfg.BucketLocation, "--bucket", true
	records.gate = marker.NewGate(records.bucket)
	s.records = &bucketCheck{bucketFacts: records}
}

// checks returns the check of each bucket.
func (s *stored) checks() []*bucketCheck {
	if s.state == s.records {
		return []*bucketCheck{s.state}
	}
	return []*bucketCheck{s.state, s.records}
}

// beforeBootstrap refuses to make a new virtual cluster if a bucket holds one of that name.
func (s *stored) beforeBootstrap(ctx context.Context) error {
	for _, check := range s.checks() {
		if err := check.beforeBootstrap(ctx); err != nil {
			return err
		}
	}
	return nil
}

// reason returns the known cause for which a bucket was not compared, or nil. owner is the owner that this replica knows of.
func (s *stored) reason(owner metalog.Owner) error {
	for _, check := range s.checks() {
		if reason := check.reason(owner); reason != nil {
			return reason
		}
	}
	return nil
}

// aging is the bucket of the records with the clock of the state bucket.
type aging struct {
	objstore.Bucket
	clock objstore.Bucket
}

// Now implements objstore.Bucket.
func (b aging) Now(ctx context.Context) (time.Time, error) { return b.clock.Now(ctx) }
