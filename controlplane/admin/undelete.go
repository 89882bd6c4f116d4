package admin

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/internal/internaltopic"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// Errors of UndeleteTopic.
var (
	// ErrNotDeleted: there is no deleted topic of that name or id; its time may be over.
	ErrNotDeleted = errors.New("no such deleted topic, or its time is over")
	// ErrAmbiguous: several deleted topics had the name.
	ErrAmbiguous = errors.New("several deleted topics had that name, give the id of one")
	// ErrNameTaken: a topic has the name meanwhile, or one that Kafka's metrics could not tell from it.
	ErrNameTaken = errors.New("the name is taken, give another one for the topic that comes back")
	// ErrInvalidName: it cannot be a topic's.
	ErrInvalidName = errors.New("invalid topic name")
)

// DeletedTopic is a topic whose deletion can be taken back.
type DeletedTopic struct {
	Name       string    `json:"name"`
	ID         string    `json:"id"` // as Kafka's tools write it
	Partitions int32     `json:"partitions"`
	Bytes      int64     `json:"bytes"` // of records
	Deleted    time.Time `json:"deleted"`
	Until      time.Time `json:"until"` // when it is given up
}

// DeletedTopics gives the topics whose deletion can be taken back, in the order of their deletion.
func DeletedTopics(o Owner) ([]DeletedTopic, error) {
	list := []DeletedTopic{}
	_, err := o.ReadFrozen(func(s *metadata.State) {
		for t := range s.DeletedTopics() {
			list = append(list, describeDeleted(t))
		}
	})
	return list, err
}

func describeDeleted(t metadata.DeletedTopic) DeletedTopic {
	at := time.UnixMilli(t.AtMs).UTC()
	return DeletedTopic{
		Name: t.Name, ID: base64.RawURLEncoding.EncodeToString(t.ID[:]), Partitions: t.Partitions, Bytes: t.Bytes,
		Deleted: at, Until: at.Add(time.Duration(t.KeepMs) * time.Millisecond),
	}
}

// UndeleteTopic brings a deleted topic back, named by its name or id, under another name if as is not empty. Errors:
// ErrNotDeleted, ErrAmbiguous, ErrNameTaken, ErrInvalidName, or the owner's.
func (a *APIs) UndeleteTopic(ctx context.Context, topic, as string) (DeletedTopic, error) {
	var found metadata.DeletedTopic
	err := a.change(ctx, func() error {
		var fault error
		if _, err := a.owner.ReadFrozen(func(s *metadata.State) { found, fault = chooseDeleted(s, topic, as) }); err != nil {
			return err
		}
		if fault != nil {
			return fault
		}
		results, err := a.propose(ctx, &metadata.UndeleteTopic{ID: found.ID, Name: as})
		if err != nil {
			return err
		}
		switch err := results[0].Err; {
		case errors.Is(err, metadata.ErrUnknownTopic):
			return ErrNotDeleted
		case errors.Is(err, metadata.ErrTopicExists):
			return ErrNameTaken
		default:
			return err
		}
	})
	if err != nil {
		return DeletedTopic{}, fmt.Errorf("undelete topic %q: %w", topic, err)
	}
	back := describeDeleted(found)
	if as != "" {
		back.Name = as
	}
	return back, nil
}

// PurgeTopic gives a deleted topic up at once, named by its name or id: its deletion cannot be taken back any more, and its
// bytes go the way of garbage. Errors: ErrNotDeleted, ErrAmbiguous, or the owner's.
func (a *APIs) PurgeTopic(ctx context.Context, topic string) (DeletedTopic, error) {
	var found metadata.DeletedTopic
	err := a.change(ctx, func() error {
		var fault error
		if _, err := a.owner.ReadFrozen(func(s *metadata.State) { found, fault = findDeleted(s, topic) }); err != nil {
			return err
		}
		if fault != nil {
			return fault
		}
		results, err := a.propose(ctx, &metadata.PurgeTopics{Topics: []metadata.PurgedTopic{{ID: found.ID, Index: found.Index}}})
		if err != nil {
			return err
		}
		if n, _ := results[0].Value.(int64); n == 0 {
			return ErrNotDeleted
		}
		return results[0].Err
	})
	if err != nil {
		return DeletedTopic{}, fmt.Errorf("purge topic %q: %w", topic, err)
	}
	purged := describeDeleted(found)
	a.cfg.Log.Info("purged deleted topic on an operator's request", zap.String("topic", purged.Name), zap.String("id", purged.ID), zap.Int64("bytes", purged.Bytes))
	return purged, nil
}

// findDeleted returns the deleted topic of that name or id.
func findDeleted(s *metadata.State, topic string) (found metadata.DeletedTopic, err error) {
	byName := 0
	given, _ := base64.RawURLEncoding.DecodeString(topic)
	for t := range s.DeletedTopics() {
		if string(given) == string(t.ID[:]) {
			return t, nil
		}
		if t.Name == topic {
			found, byName = t, byName+1
		}
	}
	switch {
	case byName > 1:
		return found, ErrAmbiguous
	case found.Topic == nil || found.ID == (id.Topic{}):
		return found, ErrNotDeleted
	}
	return found, nil
}

// chooseDeleted finds the topic meant, and tells why it cannot come back under its name or another.
func chooseDeleted(s *metadata.State, topic, as string) (found metadata.DeletedTopic, err error) {
	if found, err = findDeleted(s, topic); err != nil {
		return found, err
	}
	name := found.Name
	if as != "" {
		if name = as; checkTopicName(name) != nil || name == clusterMetadataTopic {
			return found, ErrInvalidName
		}
	}
	_, taken := s.TopicByName(name)
	taken = taken || internaltopic.ByName(name) != nil
	other, clash := colliding(s, []string{name})[unified(name)]
	switch {
	case taken:
		return found, ErrNameTaken
	case clash && strings.ContainsAny(name, "._"):
		return found, fmt.Errorf("%w: it collides with topic %s", ErrNameTaken, other)
	}
	return found, nil
}
