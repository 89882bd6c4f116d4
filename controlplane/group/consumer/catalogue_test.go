package consumer

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/freshet-io/freshet/internal/pattern"
	"github.com/freshet-io/freshet/metadata/id"
)

// topics is a Catalogue for tests.
type topics struct {
	byName  map[string]topicInfo
	names   map[id.Topic]string
	version uint64
}

type topicInfo struct {
	id         id.Topic
	partitions int32
}

func newTopics() *topics {
	return &topics{byName: make(map[string]topicInfo), names: make(map[id.Topic]string)}
}

// set makes a topic, or gives it another partition count; the id of one that was deleted is not used again.
func (c *topics) set(name string, partitions int32) {
	c.version++
	info, ok := c.byName[name]
	if !ok {
		copy(info.id[:], fmt.Sprintf("%s#%d", name, c.version))
	}
	info.partitions = partitions
	c.byName[name], c.names[info.id] = info, name
}

func (c *topics) remove(name string) {
	c.version++
	delete(c.names, c.byName[name].id)
	delete(c.byName, name)
}

func (c *topics) Topic(name string) (id.Topic, int32, bool) {
	info, ok := c.byName[name]
	return info.id, info.partitions, ok
}

func (c *topics) TopicName(t id.Topic) (string, bool) {
	name, ok := c.names[t]
	return name, ok
}

func (c *topics) Matching(expression string) Matches {
	m := Matches{Known: true, Version: c.version}
	var p pattern.Pattern
	p, m.Err = pattern.Compile(expression)
	for name := range c.byName {
		if p.Match(name) {
			m.Topics = append(m.Topics, name)
		}
	}
	return m
}

func (c *topics) Version() uint64 { return c.version }

// partition reads name/number.
func (c *topics) partition(s string) id.TopicPartition {
	name, number, _ := strings.Cut(s, "/")
	n, err := strconv.Atoi(number)
	if err != nil {
		panic(err)
	}
	info, ok := c.byName[name]
	if !ok {
		copy(info.id[:], name)
	}
	return id.TopicPartition{Topic: info.id, Partition: int32(n)}
}

// show gives partitions as name/0,1,2; a topic that is gone by its id's letters.
func (c *topics) show(partitions []id.TopicPartition) string {
	var out []string
	byTopic(partitions, func(t id.Topic, numbers []int32) {
		name, ok := c.names[t]
		if !ok {
			name = strings.TrimRight(string(t[:]), "\x00") + "(gone)"
		}
		var n []string
		for _, p := range numbers {
			n = append(n, strconv.Itoa(int(p)))
		}
		out = append(out, name+"/"+strings.Join(n, ","))
	})
	if len(out) == 0 {
		return "-"
	}
	return strings.Join(out, " ")
}
