package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// TopicConfig has the settings of the `freshet topic` commands; each command uses some of them.
type TopicConfig struct {
	ClientConfig
	Topics        []string
	Partitions    int32    // create: -1 takes the cluster's default; alter: 0 leaves them
	Replicas      int16    // create: replication factor, which tools read back; -1 takes the cluster's default
	Configs       []string // name=value
	DeleteConfigs []string // names that return to their default
	IfNotExists   bool     // create: an existing topic is no error
	IfExists      bool     // delete: an absent topic is no error
	AllConfigs    bool     // describe: defaults too
	Internal      bool     // list: internal topics too
}

// topicResult is the result of a change of one topic.
type topicResult struct {
	Topic      string `json:"topic"`
	Partitions int32  `json:"partitions,omitempty"` // of a created topic
}

// CreateTopics creates the topics and writes their names.
func CreateTopics(ctx context.Context, c TopicConfig, s Streams) error {
	configs, err := pairs("--topic-config", c.Configs)
	if err != nil {
		return err
	}
	return c.once(ctx, s, func(ctx context.Context, admin *kadm.Client) error { return c.create(ctx, admin, configs, s) })
}

func (c TopicConfig) create(ctx context.Context, admin *kadm.Client, configs map[string]*string, s Streams) error {
	answers, err := admin.CreateTopics(ctx, c.Partitions, c.Replicas, configs, c.Topics...)
	if err != nil {
		return failed("create topics", err)
	}
	done := []topicResult{}
	var faults []error
	for _, a := range answers.Sorted() {
		switch {
		case a.Err == nil:
			done = append(done, topicResult{a.Topic, a.NumPartitions})
		case c.IfNotExists && errors.Is(a.Err, kerr.TopicAlreadyExists):
		default:
			faults = append(faults, answered(a.Topic, a.Err, a.ErrMessage))
		}
	}
	faults = append(faults, results(s, done, func(t topicResult) string {
		return fmt.Sprintf("created topic %s with %s", t.Topic, count(int64(t.Partitions), "partition"))
	}))
	return errors.Join(faults...)
}

// DeleteTopics deletes the topics and writes their names.
func DeleteTopics(ctx context.Context, c TopicConfig, s Streams) error {
	return c.once(ctx, s, func(ctx context.Context, admin *kadm.Client) error { return c.delete(ctx, admin, s) })
}

func (c TopicConfig) delete(ctx context.Context, admin *kadm.Client, s Streams) error {
	answers, err := admin.DeleteTopics(ctx, c.Topics...)
	if err != nil {
		return failed("delete topics", err)
	}
	done := []topicResult{}
	var faults []error
	for _, a := range answers.Sorted() {
		switch {
		case a.Err == nil:
			done = append(done, topicResult{Topic: a.Topic})
		case errors.Is(a.Err, kerr.UnknownTopicOrPartition):
			if !c.IfExists {
				faults = append(faults, fmt.Errorf("topic %q does not exist", a.Topic))
			}
		default:
			faults = append(faults, answered(a.Topic, a.Err, a.ErrMessage))
		}
	}
	faults = append(faults, results(s, done, func(t topicResult) string {
		return "deleted topic " + t.Topic + "; topic undelete brings it back while its records are kept"
	}))
	return errors.Join(faults...)
}

// AlterTopics raises partition counts and changes configs.
func AlterTopics(ctx context.Context, c TopicConfig, s Streams) error {
	changes, err := c.configChanges()
	if err != nil {
		return err
	}
	if c.Partitions == 0 && len(changes) == 0 {
		return usagef("nothing to alter: give --partitions, --topic-config or --delete-topic-config")
	}
	return c.once(ctx, s, func(ctx context.Context, admin *kadm.Client) error { return c.alter(ctx, admin, changes, s) })
}

func (c TopicConfig) alter(ctx context.Context, admin *kadm.Client, changes []kadm.AlterConfig, s Streams) error {
	var faults []error
	if c.Partitions != 0 {
		answers, err := admin.UpdatePartitions(ctx, int(c.Partitions), c.Topics...)
		if err != nil {
			return failed("raise partition count", err)
		}
		for _, a := range answers.Sorted() {
			faults = append(faults, answered(a.Topic, a.Err, a.ErrMessage))
		}
	}
	if len(changes) > 0 {
		answers, err := admin.AlterTopicConfigs(ctx, changes, c.Topics...)
		if err != nil {
			return failed("alter configs", err)
		}
		for _, a := range answers {
			faults = append(faults, answered(a.Name, a.Err, a.ErrMessage))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	done := []topicResult{}
	for _, t := range c.Topics {
		done = append(done, topicResult{Topic: t})
	}
	return results(s, done, func(t topicResult) string { return "altered topic " + t.Topic })
}

func (c TopicConfig) configChanges() ([]kadm.AlterConfig, error) {
	set, err := pairs("--topic-config", c.Configs)
	if err != nil {
		return nil, err
	}
	var changes []kadm.AlterConfig
	for name, value := range set {
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: value})
	}
	for _, name := range c.DeleteConfigs {
		changes = append(changes, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: name})
	}
	slices.SortFunc(changes, func(a, b kadm.AlterConfig) int { return cmp.Compare(a.Name, b.Name) })
	return changes, nil
}

// pairs reads name=value settings.
func pairs(flag string, settings []string) (map[string]*string, error) {
	m := make(map[string]*string, len(settings))
	for _, s := range settings {
		name, value, ok := strings.Cut(s, "=")
		if !ok || name == "" {
			return nil, usagef("%s %q: want name=value", flag, s)
		}
		m[name] = &value
	}
	return m, nil
}

// answered returns the error of an answer about a topic. The cluster's message comes first, since it names the fault; the client's
// text for the code only lists possible faults.
func answered(topic string, err error, message string) error {
	var code *kerr.Error
	if message == "" || !errors.As(err, &code) || errors.Is(err, kerr.TopicAlreadyExists) || errors.Is(err, kerr.UnknownTopicOrPartition) {
		return explain(topic, err)
	}
	return fmt.Errorf("topic %q: %s (%s)", topic, message, code.Message)
}

func count(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
