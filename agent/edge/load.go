package edge

import "github.com/freshet-io/freshet/internal/promcount"

// Connections returns the number of open connections.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.conns)
}

// Traffic gives the bytes of requests and of answers so far, as they are within TLS.
func (s *Server) Traffic() (in, out int64) {
	return promcount.Value(s.m.requestBytes), promcount.Value(s.m.responseBytes)
}

// ProduceMemory gives the bytes that produce frames hold and their bound, at which they wait.
func (s *Server) ProduceMemory() (held, bound int64) { return s.produce.used.Load(), s.produce.limit }
