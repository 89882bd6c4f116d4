package session

import "github.com/freshet-io/freshet/controlplane/api"

// SetPeerSecret sets the secret by which the agents of the virtual cluster know each other. Connected agents are told a new one at once.
func (c *Cluster) SetPeerSecret(secret string) {
	before := c.secret.Swap(&secret)
	if before != nil && *before == secret {
		return
	}
	if before != nil {
		c.log.Info("agents get a new secret by which they know each other")
	}
	if t := c.tenure.Load(); t != nil {
		t.tellPeerSecret(secret)
	}
}

// peerSecret returns the secret, "" before the first SetPeerSecret.
func (c *Cluster) peerSecret() string {
	if secret := c.secret.Load(); secret != nil {
		return *secret
	}
	return ""
}

// tellPeerSecret sends the secret to each agent that is attached. An agent that attaches later finds it in Welcome.
func (t *tenure) tellPeerSecret(secret string) {
	item := &api.OwnerItem{Item: &api.OwnerItem_Welcome{Welcome: &api.Welcome{PeerSecret: secret}}}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range t.mu.agents {
		a.out.push(item)
	}
}
