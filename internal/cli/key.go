package cli

import (
	"fmt"

	"github.com/freshet-io/freshet/internal/accesskey"
)

// Kinds of `freshet key create`.
const (
	AgentKey    = "agent"
	ReadOnlyKey = "read-only"
	OperatorKey = "operator"
)

var keyPrefixes = map[string]string{AgentKey: accesskey.AgentPrefix, ReadOnlyKey: accesskey.ReadOnlyPrefix, OperatorKey: accesskey.OperatorPrefix}

// KeyConfig has the settings of `freshet key create`.
type KeyConfig struct {
	Kind      string
	ClusterID string // not of operator keys
}

// keyResult is the result of `freshet key create`.
type keyResult struct {
	Key       string `json:"key"`
	Kind      string `json:"kind"`
	ClusterID string `json:"cluster_id,omitempty"`
	SHA256    string `json:"sha256"` // for --agent-keys; logs name the key by its first 8 digits
}

// CreateKey writes a new key. It is stored nowhere.
func CreateKey(c KeyConfig, s Streams) error {
	switch {
	case c.Kind == OperatorKey && c.ClusterID != "":
		return usagef("--cluster-id %s: an operator key opens all virtual clusters: remove it", c.ClusterID)
	case c.Kind != OperatorKey && c.ClusterID == "":
		return usagef("want --cluster-id: `freshet cluster list` prints it")
	}
	key, err := accesskey.New(keyPrefixes[c.Kind], c.ClusterID)
	if err != nil {
		return usagef("--cluster-id %v", err)
	}
	if s.json() {
		return s.WriteJSON(keyResult{Key: key, Kind: c.Kind, ClusterID: c.ClusterID, SHA256: accesskey.HashOf(key).Digits()})
	}
	_, err = fmt.Fprintln(s.Out, key)
	return err
}
