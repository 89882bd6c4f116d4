package admin_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/freshet-io/freshet/controlplane/admin"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// A deleted topic comes back by name or id, under a name that is free and valid.
func TestUndeleteTopic(t *testing.T) {
	test(t, kmsg.DeleteTopics, func(c *cluster, version int16) {
		if version != 6 {
			return // the request's version makes no difference
		}
		apis := admin.New(admin.Config{UndeleteMs: 1000}, c.owner)
		remove := func(name string) {
			c.t.Helper()
			c.propose(&metadata.DeleteTopic{ID: c.topic(name).ID, KeepMs: 1000})
		}
		undelete := func(topic, as string) error {
			_, err := apis.UndeleteTopic(c.t.Context(), topic, as)
			return err
		}
		c.create("a", 2)
		c.produce("a", 0, 1, 10)
		first := c.topic("a").ID
		remove("a")
		list, err := admin.DeletedTopics(c.owner)
		require.NoError(c.t, err)
		require.Len(c.t, list, 1)
		require.Equal(c.t, "a", list[0].Name)
		require.EqualValues(c.t, 500, list[0].Bytes)
		require.EqualValues(c.t, 1000, list[0].Until.Sub(list[0].Deleted).Milliseconds())

		require.ErrorIs(c.t, undelete("b", ""), admin.ErrNotDeleted)
		require.ErrorIs(c.t, undelete("", ""), admin.ErrNotDeleted)
		require.ErrorIs(c.t, undelete("a", "no/name"), admin.ErrInvalidName)
		require.ErrorIs(c.t, undelete("a", "__cluster_metadata"), admin.ErrInvalidName)
		require.NoError(c.t, undelete("a", ""))
		require.Equal(c.t, first, c.topic("a").ID)
		require.ErrorIs(c.t, undelete("a", ""), admin.ErrNotDeleted)

		remove("a")
		c.propose(&metadata.CreateTopic{ID: id.Topic{7}, Name: "a", Partitions: 1})
		c.create("x_y", 1)
		require.ErrorIs(c.t, undelete("a", ""), admin.ErrNameTaken)
		require.ErrorIs(c.t, undelete("a", "x.y"), admin.ErrNameTaken)
		remove("a")
		require.ErrorIs(c.t, undelete("a", ""), admin.ErrAmbiguous)
		back, err := apis.UndeleteTopic(c.t.Context(), list[0].ID, "z")
		require.NoError(c.t, err)
		require.Equal(c.t, "z", back.Name)
		require.Equal(c.t, first, c.topic("z").ID)
		require.Equal(c.t, "z", c.topic("z").Name)
	})
}

// A deleted topic is given up before its time, by name or id; another deletion of the same topic is another matter.
func TestPurgeTopic(t *testing.T) {
	test(t, kmsg.DeleteTopics, func(c *cluster, version int16) {
		if version != 6 {
			return // the request's version makes no difference
		}
		core, logged := observer.New(zap.InfoLevel)
		apis := admin.New(admin.Config{UndeleteMs: 1000, Log: zap.New(core)}, c.owner)
		purge := func(topic string) error {
			_, err := apis.PurgeTopic(c.t.Context(), topic)
			return err
		}
		c.create("a", 2)
		c.produce("a", 0, 1, 10)
		require.ErrorIs(c.t, purge("a"), admin.ErrNotDeleted, "it is not deleted")
		first := c.topic("a").ID
		c.propose(&metadata.DeleteTopic{ID: first, KeepMs: 1000})
		second := id.Topic{7}
		c.propose(&metadata.CreateTopic{ID: second, Name: "a", Partitions: 1})
		c.propose(&metadata.DeleteTopic{ID: second, KeepMs: 1000})
		require.ErrorIs(c.t, purge("a"), admin.ErrAmbiguous)
		list, err := admin.DeletedTopics(c.owner)
		require.NoError(c.t, err)
		purged, err := apis.PurgeTopic(c.t.Context(), list[0].ID)
		require.NoError(c.t, err)
		require.EqualValues(c.t, 500, purged.Bytes)
		require.NoError(c.t, purge("a"))
		require.ErrorIs(c.t, purge("a"), admin.ErrNotDeleted)
		require.ErrorIs(c.t, purge(""), admin.ErrNotDeleted)
		list, err = admin.DeletedTopics(c.owner)
		require.NoError(c.t, err)
		require.Empty(c.t, list)
		require.Equal(c.t, 2, logged.FilterMessage("purged deleted topic on an operator's request").Len())
	})
}
