package admin

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/freshet-io/freshet/metadata"
)

// maxTopicName is the longest topic name, in bytes.
const maxTopicName = 249

// clusterMetadataTopic is the name of KRaft's own topic, which no client may create.
const clusterMetadataTopic = "__cluster_metadata"

// internalTopics are those that Kafka calls internal.
var internalTopics = map[string]bool{"__consumer_offsets": true, "__transaction_state": true, "__share_group_state": true}

// checkTopicName gives Kafka's complaint about a topic name (org.apache.kafka.common.internals.Topic).
func checkTopicName(name string) *apiError {
	var why string
	switch {
	case name == "":
		why = "the empty string is not allowed"
	case name == "." || name == "..":
		why = fmt.Sprintf("'%s' is not allowed", name)
	case len(name) > maxTopicName:
		why = fmt.Sprintf("the length of '%s' is longer than the max allowed length %d", name, maxTopicName)
	case strings.IndexFunc(name, func(r rune) bool { return !legalTopicRune(r) }) >= 0:
		why = fmt.Sprintf("'%s' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'", name)
	default:
		return nil
	}
	return failed(kerr.InvalidTopicException, "Topic name is invalid: "+why)
}

func legalTopicRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-'
}

// unified is the name with what metric names cannot tell apart made one.
func unified(name string) string { return strings.ReplaceAll(name, ".", "_") }

// colliding finds topics that differ from the names only in '.' and '_': by unified name, the first existing one.
func colliding(s *metadata.State, names []string) map[string]string {
	wanted := map[string]bool{}
	for _, name := range names {
		if strings.ContainsAny(name, "._") {
			wanted[unified(name)] = true
		}
	}
	found := map[string]string{}
	if len(wanted) == 0 {
		return found
	}
	for t := range s.Topics() {
		u := unified(t.Name)
		if _, ok := found[u]; !ok && wanted[u] {
			found[u] = t.Name
		}
	}
	return found
}
