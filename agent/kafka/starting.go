package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/freshet-io/freshet/agent/edge"
)

const (
	// startingWait bounds the time that ApiVersions waits for the first catalogue. It is below the shortest time-out of a client:
	// kafka-python waits 2 s (api_version_auto_timeout_ms).
	startingWait = time.Second
	// startingEvery is the minimum time between two log lines about clients of an agent that is not ready.
	startingEvery = 10 * time.Second
)

// starting answers ApiVersions until the first catalogue is there. An agent without a catalogue knows no brokers, so it can only close
// the connection of a client that asks for Metadata, which clients take for missing SASL. ApiVersions comes before Metadata, and clients
// show its error and connect again: Java in NetworkClient.handleApiVersionsResponse, librdkafka in rd_kafka_broker_handle_ApiVersion.
// COORDINATOR_NOT_AVAILABLE is retriable for all of them.
type starting struct {
	API
	cfg    *Config
	logged rate.Sometimes
}

// apiVersionsOf returns the API that answers ApiVersions.
func apiVersionsOf(cfg *Config) API {
	versions := apiVersions{cfg.Catalogue}
	if cfg.Catalogue == nil {
		return versions
	}
	return &starting{API: versions, cfg: cfg, logged: rate.Sometimes{Interval: startingEvery}}
}

// Start implements API.
func (s *starting) Start(ctx context.Context, req *edge.Request) func() edge.Reply {
	answer := s.API.Start(ctx, req)
	select {
	case <-s.cfg.Catalogue.Ready():
		return answer
	default:
	}
	return func() edge.Reply {
		timer := time.NewTimer(startingWait)
		defer timer.Stop()
		select {
		case <-s.cfg.Catalogue.Ready():
			return answer()
		case <-ctx.Done():
			return answer()
		case <-timer.C:
		}
		s.logged.Do(func() {
			s.cfg.Log.Warn("client connects to an agent that is not ready: answered COORDINATOR_NOT_AVAILABLE", zap.Error(s.cfg.Fault()),
				zap.String("client_host", req.Client.Host), zap.String("client_id", req.ClientID))
		})
		reply := answer()
		out := kmsg.NewPtrApiVersionsResponse()
		out.SetVersion(req.Version)
		if reply.Close || out.ReadFrom(reply.Head) != nil || out.ErrorCode != 0 {
			return reply // the client asks again, with another version
		}
		out.ErrorCode = kerr.CoordinatorNotAvailable.Code
		return Answer(req, out)
	}
}
