package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
)

const (
	// autoCreateVersion is the version of the CreateTopics requests to the control plane: the last one whose answer lists no configs.
	autoCreateVersion = 4
	// maxAutoCreate is the maximum number of topics that one Metadata request creates. The client asks again for further ones. Kafka's
	// controller creates up to 10,000, and none of a request with more.
	maxAutoCreate = 1000
)

// AutoCreate creates topics by CreateTopics requests to the control plane, on behalf of the client that asked about
// them, with the cluster's default partition count and configs.
type AutoCreate struct {
	to    Forwarder
	zones *Zones
}

// NewAutoCreate builds a TopicCreator over a Forwarder.
func NewAutoCreate(to Forwarder, zones *Zones) *AutoCreate { return &AutoCreate{to: to, zones: zones} }

// CreateTopics implements TopicCreator. It creates the first maxAutoCreate topics, and returns LEADER_NOT_AVAILABLE for the others. Further errors are
// each a *kerr.Error of the control plane, or an error of the Forwarder.
func (a *AutoCreate) CreateTopics(ctx context.Context, req *edge.Request, names []string) []error {
	errs := make([]error, len(names))
	fail := func(err error) []error {
		for i := range names {
			errs[i] = fmt.Errorf("create topics: %w", err)
		}
		return errs
	}
	for i := maxAutoCreate; i < len(names); i++ {
		errs[i] = kerr.LeaderNotAvailable
	}
	names = names[:min(len(names), maxAutoCreate)]
	in := kmsg.NewPtrCreateTopicsRequest()
	in.SetVersion(autoCreateVersion)
	in.TimeoutMillis = int32(DefaultMetadataTimeout / time.Millisecond)
	for _, name := range names {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = name, -1, -1
		in.Topics = append(in.Topics, t)
	}
	f := forwardOf(req, a.zones)
	f.Key, f.Version, f.Body = in.Key(), in.Version, in.AppendTo(nil)
	body, err := a.to.Forward(ctx, f)
	if err != nil {
		return fail(err)
	}
	out := kmsg.NewPtrCreateTopicsResponse()
	out.SetVersion(autoCreateVersion)
	if err := out.ReadFrom(body); err != nil {
		return fail(err)
	}
	byName := make(map[string]error, len(out.Topics))
	for _, t := range out.Topics {
		byName[t.Topic] = kerr.ErrorForCode(t.ErrorCode)
	}
	for i, name := range names {
		err, ok := byName[name]
		switch {
		case !ok:
			errs[i] = fmt.Errorf("create topics: no answer for %q", name)
		case err != nil && ErrorCode(err) != kerr.TopicAlreadyExists.Code:
			errs[i] = err
		}
	}
	return errs
}
