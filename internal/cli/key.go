package cli

import (
	"fmt"

	"github.com/freshet-io/freshet/internal/accesskey"
)

// KeyConfig has the settings of `freshet key create`.
type KeyConfig struct{ ClusterID string }

// keyResult is the result of `freshet key create`.
type keyResult struct {
	Key       string `json:"key"`
	ClusterID string `json:"cluster_id"`
	SHA256    string `json:"sha256"` // for --agent-keys; logs name the key by its first 8 digits
}

// CreateKey writes a new agent key. It is stored nowhere.
func CreateKey(c KeyConfig, s Streams) error {
	if c.ClusterID == "" {
		return usagef("want --cluster-id: `freshet bucket show` prints it")
	}
	key, err := accesskey.NewAgent(c.ClusterID)
	if err != nil {
		return usagef("--cluster-id %v", err)
	}
	if s.json() {
		return s.WriteJSON(keyResult{Key: key, ClusterID: c.ClusterID, SHA256: accesskey.HashOf(key).Digits()})
	}
	_, err = fmt.Fprintln(s.Out, key)
	return err
}
