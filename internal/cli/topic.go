package cli

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TopicConfig is what `freshet topic` commands are told; each uses what concerns it.
type TopicConfig struct {
	ClientConfig
	Topics        []string
	Partitions    int32    // create: -1 takes the cluster's default; alter: 0 leaves them
	Configs       []string // name=value
	DeleteConfigs []string // names that return to their default
	IfNotExists   bool     // create: an existing topic is no error
	IfExists      bool     // delete: an absent topic is no error
	AllConfigs    bool     // describe: defaults too
	Internal      bool     // list: internal topics too
}

// admin gives a client for topic administration.
func (c TopicConfig) admin(ctx context.Context) (*kadm.Client, error) {
	client, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	admin := kadm.NewClient(client)
	admin.SetTimeoutMillis(int32(min(c.Timeout.Milliseconds(), 60_000)))
	return admin, nil
}

// CreateTopics creates the topics and says which.
func CreateTopics(ctx context.Context, c TopicConfig, s Streams) error {
	c.ApplyDefaults()
	configs, err := pairs("--topic-config", c.Configs)
	if err != nil {
		return err
	}
	admin, err := c.admin(ctx)
	if err != nil {
		return err
	}
	defer admin.Close()
	answers, err := admin.CreateTopics(ctx, c.Partitions, -1, configs, c.Topics...)
	if err != nil {
		return fmt.Errorf("create topics: %w", err)
	}
	var faults []error
	for _, a := range answers.Sorted() {
		switch {
		case a.Err == nil:
			fmt.Fprintf(s.Out, "created topic %s with %s\n", a.Topic, count(int64(a.NumPartitions), "partition"))
		case c.IfNotExists && errors.Is(a.Err, kerr.TopicAlreadyExists):
		default:
			faults = append(faults, answered(a.Topic, a.Err, a.ErrMessage))
		}
	}
	return errors.Join(faults...)
}

// DeleteTopics deletes the topics and says which.
func DeleteTopics(ctx context.Context, c TopicConfig, s Streams) error {
	c.ApplyDefaults()
	admin, err := c.admin(ctx)
	if err != nil {
		return err
	}
	defer admin.Close()
	answers, err := admin.DeleteTopics(ctx, c.Topics...)
	if err != nil {
		return fmt.Errorf("delete topics: %w", err)
	}
	var faults []error
	for _, a := range answers.Sorted() {
		switch {
		case a.Err == nil:
			fmt.Fprintf(s.Out, "deleted topic %s\n", a.Topic)
		case errors.Is(a.Err, kerr.UnknownTopicOrPartition):
			if !c.IfExists {
				faults = append(faults, fmt.Errorf("topic %q does not exist", a.Topic))
			}
		default:
			faults = append(faults, answered(a.Topic, a.Err, a.ErrMessage))
		}
	}
	return errors.Join(faults...)
}

// ListTopics writes the topics' names and partition counts, one a line.
func ListTopics(ctx context.Context, c TopicConfig, s Streams) error {
	c.ApplyDefaults()
	admin, err := c.admin(ctx)
	if err != nil {
		return err
	}
	defer admin.Close()
	list := admin.ListTopics
	if c.Internal {
		list = admin.ListTopicsWithInternal
	}
	topics, err := list(ctx)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	for _, t := range topics.Sorted() {
		fmt.Fprintf(w, "%s\t%s\n", t.Topic, count(int64(len(t.Partitions)), "partition"))
	}
	return w.Flush()
}

// AlterTopics raises partition counts and changes configs.
func AlterTopics(ctx context.Context, c TopicConfig, s Streams) error {
	c.ApplyDefaults()
	changes, err := c.configChanges()
	if err != nil {
		return err
	}
	if c.Partitions == 0 && len(changes) == 0 {
		return usagef("nothing to alter: give --partitions, --topic-config or --delete-topic-config")
	}
	admin, err := c.admin(ctx)
	if err != nil {
		return err
	}
	defer admin.Close()
	var faults []error
	if c.Partitions != 0 {
		answers, err := admin.UpdatePartitions(ctx, int(c.Partitions), c.Topics...)
		if err != nil {
			return fmt.Errorf("raise partition count: %w", err)
		}
		for _, a := range answers.Sorted() {
			faults = append(faults, answered(a.Topic, a.Err, a.ErrMessage))
		}
	}
	if len(changes) > 0 {
		answers, err := admin.AlterTopicConfigs(ctx, changes, c.Topics...)
		if err != nil {
			return fmt.Errorf("alter configs: %w", err)
		}
		for _, a := range answers {
			faults = append(faults, answered(a.Name, a.Err, a.ErrMessage))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "altered %s\n", strings.Join(c.Topics, ", "))
	return nil
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

// DescribeTopics writes what there is to know of the topics: id, configs, partitions with their offsets.
func DescribeTopics(ctx context.Context, c TopicConfig, s Streams) error {
	c.ApplyDefaults()
	admin, err := c.admin(ctx)
	if err != nil {
		return err
	}
	defer admin.Close()
	meta, err := admin.Metadata(ctx, c.Topics...)
	if err != nil {
		return fmt.Errorf("read metadata: %w", err)
	}
	var faults []error
	for _, t := range meta.Topics.Sorted() {
		if t.Err != nil {
			faults = append(faults, explain(t.Topic, t.Err))
			continue
		}
		faults = append(faults, describeTopic(ctx, admin, t, c.AllConfigs, s.Out))
	}
	return errors.Join(faults...)
}

func describeTopic(ctx context.Context, admin *kadm.Client, t kadm.TopicDetail, allConfigs bool, out io.Writer) error {
	configs, err := admin.DescribeTopicConfigs(ctx, t.Topic)
	if err != nil {
		return fmt.Errorf("describe configs: %w", err)
	}
	starts, err := admin.ListStartOffsets(ctx, t.Topic)
	if err != nil {
		return fmt.Errorf("list start offsets: %w", err)
	}
	ends, err := admin.ListEndOffsets(ctx, t.Topic)
	if err != nil {
		return fmt.Errorf("list end offsets: %w", err)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "topic %s, id %s, %s\n", t.Topic, base64.RawURLEncoding.EncodeToString(t.ID[:]), count(int64(len(t.Partitions)), "partition"))
	for _, r := range configs {
		slices.SortFunc(r.Configs, func(a, b kadm.Config) int { return cmp.Compare(a.Key, b.Key) })
		for _, cfg := range r.Configs {
			if allConfigs || cfg.Source == kmsg.ConfigSourceDynamicTopicConfig {
				fmt.Fprintf(w, "config %s=%s\n", cfg.Key, cfg.MaybeValue())
			}
		}
	}
	fmt.Fprintln(w, "partition\tleader\tfirst offset\tend offset\trecords (at most)")
	faults := []error{configs[0].Err}
	for _, p := range t.Partitions.Sorted() {
		start, _ := starts.Lookup(t.Topic, p.Partition)
		end, _ := ends.Lookup(t.Topic, p.Partition)
		faults = append(faults, explain(t.Topic, cmp.Or(start.Err, end.Err)))
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\n", p.Partition, p.Leader, start.Offset, end.Offset, end.Offset-start.Offset)
	}
	return errors.Join(append(faults, w.Flush())...)
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

// answered is the error of an answer about a topic: in the cluster's words, which tell what is wrong here, where it found any;
// those of the code, the client's, tell what it can mean.
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
