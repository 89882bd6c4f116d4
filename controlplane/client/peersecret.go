package client

// PeerSecretHandler is an optional part of a Handler. OnPeerSecret is called in stream order when the secret in Welcome has changed within
// a stream.
type PeerSecretHandler interface {
	OnPeerSecret(secret string)
}

func (s *Session) peerSecret(secret string) {
	if h, ok := s.cfg.Handler.(PeerSecretHandler); ok {
		h.OnPeerSecret(secret)
	}
}
