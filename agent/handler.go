package agent

import (
	"crypto/rand"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/agent/fetch"
	"github.com/freshet-io/freshet/agent/kafka"
	"github.com/freshet-io/freshet/agent/recode"
	"github.com/freshet-io/freshet/agent/telemetry"
)

// newHandler builds what answers Kafka requests: the APIs that are the agent's, and the way to the control plane for
// those that are not.
func (a *Agent) newHandler() (*kafka.Handler, error) {
	catalogue, log := a.listeners.catalogue, a.log.Named("kafka")
	zones, err := a.cfg.zones()
	if err != nil {
		return nil, err
	}
	views := kafka.NewViews(zones)
	a.views = views
	views.Register(a.cfg.Registry)
	views.Share(a.shared)
	a.departure = kafka.NewDeparture(catalogue, views, a.left)
	reads, err := a.readAPIs()
	if err != nil {
		return nil, err
	}
	answers := kafka.NewAnswers(a.cfg.MemoryLimit, func() { a.edge.Reclaim() }, a.cfg.Registry)
	metadata := kafka.MetadataConfig{
		Catalogue: catalogue, Views: views, Prober: a.session, Log: log, Departure: a.departure, Registerer: a.cfg.Registry, Answers: answers,
	}
	if a.cfg.AutoCreateTopics {
		metadata.Creator = kafka.NewAutoCreate(a.session, zones)
	}
	apis := append(reads, kafka.NewSecurity()...)
	clients := telemetry.New(telemetry.Config{Random: rand.Reader, Registerer: a.cfg.Registry})
	apis = append(apis, kafka.NewTelemetry(catalogue, clients)...)
	return kafka.New(kafka.Config{
		APIs: append(apis,
			kafka.NewMetadata(metadata),
			kafka.NewFindCoordinator(catalogue, views),
			kafka.NewProduce(kafka.ProduceConfig{
				Catalogue: catalogue, Views: views, Prober: a.session, Forwarder: a.session, Writer: a.route, Log: log, Registerer: a.cfg.Registry,
				Now:     func() int64 { return a.session.Now().UnixMilli() },
				Recoder: recode.New(recode.Config{HoldBytes: a.budgets.recoded, Registerer: a.cfg.Registry}),
			}),
		),
		Forwarder: a.session, Prober: a.session, Zones: zones, Catalogue: catalogue, Views: views, Fault: a.ready, Left: a.left, Log: log,
		Answers: answers,
	})
}

// closesAbroad reports whether a client's idle connections are closed because its own zone has agents.
func (a *Agent) closesAbroad(client *edge.Client, clientID string) bool {
	return a.views.ClosesAbroad(a.listeners.catalogue.Load(), &edge.Request{ClientID: clientID, Client: client})
}

// readAPIs are those that plan from the partition views.
func (a *Agent) readAPIs() ([]kafka.API, error) {
	catalogue := a.listeners.catalogue
	sessions, err := fetch.NewSessions(fetch.SessionsConfig{Bytes: a.budgets.sessions, Registerer: a.cfg.Registry})
	if err != nil {
		return nil, err
	}
	fetches, err := kafka.NewFetch(kafka.FetchConfig{
		Catalogue: catalogue, Source: a.session, Fetcher: a.fetcher, Sessions: sessions, Departure: a.departure,
	})
	if err != nil {
		return nil, err
	}
	offsets, err := fetch.NewOffsets(fetch.OffsetsConfig{
		Source: a.session, Bytes: ownFirst{a.cache, a}, Internal: kafka.NewInternalReader(a.session), Fetcher: a.fetcher,
		Log: a.log.Named("offsets"),
	})
	if err != nil {
		return nil, err
	}
	list, err := kafka.NewListOffsets(catalogue, a.session, offsets, a.departure)
	if err != nil {
		return nil, err
	}
	epochs, err := kafka.NewOffsetForLeaderEpoch(catalogue, a.session, offsets)
	if err != nil {
		return nil, err
	}
	return []kafka.API{fetches, list, epochs}, nil
}
