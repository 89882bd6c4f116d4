package agent

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/client"
)

func TestAgent_NamesTheSettingThatIsRefused(t *testing.T) {
	a := &Agent{cfg: Config{AgentKey: "key", VirtualCluster: "main", Version: "1.2.0"}}
	for refusal, says := range map[client.Refusal]string{
		client.UnknownKey:     "--agent-key (SHA-256 2c70e12b...) is unknown to the control plane at cp-1:7050: set it to one of the control plane's --agent-key, or add its SHA-256 to the control plane's file --agent-keys",
		client.UnknownCluster: "--virtual-cluster main is not served by the control plane at cp-1:7050 for this --agent-key: remove it, or set it to the one that the key opens",
		client.SpeaksTLS:      "--control-plane cp-1:7050 speaks TLS: set --control-plane-tls, or --control-plane-tls-ca to the certificates to trust",
		client.SpeaksPlain:    "--control-plane cp-1:7050 does not speak TLS: remove the settings --control-plane-tls, --control-plane-tls-ca, --control-plane-tls-cert, or set the control plane's --tls-cert",
	} {
		err := fmt.Errorf("session: %w", &client.RefusedError{Refusal: refusal, Address: "cp-1:7050", Err: errors.New("no")})
		require.EqualError(t, a.plainFault(err), says)
	}
	protocol := &client.RefusedError{Refusal: client.OtherProtocol, Err: errors.New("refused by the control plane at cp-1:7050: the control plane speaks protocol 3, this agent 1")}
	require.EqualError(t, a.plainFault(protocol), "refused by the control plane at cp-1:7050: the control plane speaks protocol 3, this agent 1: "+
		"upgrade agents and control planes one protocol at a time (this agent is 1.2.0)")
	other := errors.New("other")
	require.Equal(t, other, a.plainFault(other))
	require.NoError(t, a.plainFault(nil))
}
