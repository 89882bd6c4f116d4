package agent

import (
	"errors"
	"fmt"
	"strings"

	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/internal/accesskey"
	"github.com/freshet-io/freshet/objstore/marker"
)

// plainFault returns a fault of the configuration as one line that names the setting, its value and the remedy. It returns other errors
// unchanged.
func (a *Agent) plainFault(err error) error {
	var wrong *marker.WrongError
	var refused *client.RefusedError
	switch {
	case errors.As(err, &wrong):
		return wrong
	case errors.As(err, &refused):
		return a.cfg.refusal(refused)
	}
	return err
}

// refusal returns an error with the reason of the refusal and the remedy. It names a key by the beginning of its SHA-256, which an operator
// of the control plane can compare with --agent-keys.
func (c *Config) refusal(r *client.RefusedError) error {
	switch r.Refusal {
	case client.UnknownKey:
		return fmt.Errorf("--agent-key (SHA-256 %s...) is unknown to the control plane at %s: set it to one of the control plane's --agent-key, or add its SHA-256 to the control plane's file --agent-keys",
			accesskey.HashOf(c.AgentKey), r.Address)
	case client.UnknownCluster:
		return fmt.Errorf("--virtual-cluster %s is not served by the control plane at %s for this --agent-key: remove it, or set it to the one that the key opens",
			c.VirtualCluster, r.Address)
	case client.SpeaksTLS:
		return fmt.Errorf("--control-plane %s speaks TLS: set --control-plane-tls, or --control-plane-tls-ca to the certificates to trust", r.Address)
	case client.SpeaksPlain:
		return fmt.Errorf("--control-plane %s does not speak TLS: remove the settings %s, or set the control plane's --tls-cert", r.Address,
			strings.Join([]string{"--control-plane-tls", "--control-plane-tls-ca", "--control-plane-tls-cert"}, ", "))
	case client.OtherProtocol:
		return fmt.Errorf("%w: upgrade agents and control planes one protocol at a time (this agent is %s)", r.Err, c.Version)
	}
	return r
}
