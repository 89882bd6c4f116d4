package peer

import "github.com/freshet-io/freshet/internal/promcount"

// SentBytes gives the bytes of bundles sent to other agents so far.
func (s *Server) SentBytes() int64 { return promcount.Value(s.metrics.bytes) }

// ReceivedBytes gives the bytes of bundles received from other agents so far.
func (z *Zone) ReceivedBytes() int64 { return promcount.Value(z.metrics.bytes) }
