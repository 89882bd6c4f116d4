package adminhttp

import "net/http"

// Handler returns the handler of the server's requests.
func (s *Server) Handler() http.Handler { return s.http.Handler }
