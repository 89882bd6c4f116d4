package cli

import (
	"context"
	"net/http"

	"github.com/twmb/franz-go/pkg/kadm"
)

// TopicNames returns the names of all topics but internal ones.
func TopicNames(ctx context.Context, c ClientConfig) ([]string, error) {
	client, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	topics, err := kadm.NewClient(client).ListTopics(ctx)
	if err != nil {
		return nil, failed("list topics", err)
	}
	return topics.Names(), nil
}

// GroupNames returns the names of all groups.
func GroupNames(ctx context.Context, c ClientConfig) ([]string, error) {
	client, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	groups, err := kadm.NewClient(client).ListGroups(ctx)
	if err != nil {
		return nil, failed("list groups", err)
	}
	return groups.Groups(), nil
}

// DeletedTopicNames returns the names of the topics whose deletion can be undone.
func DeletedTopicNames(ctx context.Context, c OperatorConfig) ([]string, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	var answer struct {
		Topics []deletedTopic `json:"topics"`
	}
	if err := c.ask(ctx, http.MethodGet, "/deleted-topics", &answer); err != nil {
		return nil, err
	}
	names := []string{}
	for _, t := range answer.Topics {
		names = append(names, t.Name)
	}
	return names, nil
}
