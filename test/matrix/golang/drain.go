package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	ibm "github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"
)

// drain reads a topic with a library until the process is killed, and prints each value up to its first space. If age is set, the client
// refreshes its metadata after that time and commits its positions each second. If rack is set, the client has that rack.
func drain(library, bootstrap, topic, group, client, rack string, age time.Duration) error {
	switch library {
	case "franz-go":
		return drainFranz(bootstrap, topic, group, client, rack, age)
	case "sarama":
		return drainSarama(bootstrap, topic, group, client, rack, age)
	}
	return fmt.Errorf("no such library: %s", library)
}

// show prints a value up to its first space.
func show(value []byte) {
	word, _, _ := strings.Cut(string(value), " ")
	fmt.Println("read " + word)
}

func drainFranz(bootstrap, topic, group, client, rack string, age time.Duration) error {
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.ConsumeTopics(topic), kgo.ConsumerGroup(group), kgo.Rack(rack),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}
	if age > 0 {
		options = append(options, kgo.MetadataMaxAge(age), kgo.MetadataMinAge(age/4), kgo.AutoCommitInterval(time.Second))
	} else {
		options = append(options, kgo.DisableAutoCommit())
	}
	if client != "" {
		options = append(options, kgo.ClientID(client))
	}
	c, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	for {
		c.PollFetches(context.Background()).EachRecord(func(r *kgo.Record) { show(r.Value) })
	}
}

// printer is a sarama consumer of a group that prints values.
type printer struct{}

func (printer) Setup(ibm.ConsumerGroupSession) error   { return nil }
func (printer) Cleanup(ibm.ConsumerGroupSession) error { return nil }

func (printer) ConsumeClaim(session ibm.ConsumerGroupSession, claim ibm.ConsumerGroupClaim) error {
	for m := range claim.Messages() {
		show(m.Value)
		session.MarkMessage(m, "")
	}
	return nil
}

func drainSarama(bootstrap, topic, group, client, rack string, age time.Duration) error {
	ibm.Logger = log.New(os.Stderr, "sarama ", log.Ltime|log.Lmicroseconds)
	cfg := ibm.NewConfig()
	cfg.Version, cfg.Consumer.Offsets.Initial, cfg.RackID = ibm.MaxVersion, ibm.OffsetOldest, rack
	if cfg.Consumer.Offsets.AutoCommit.Enable = age > 0; age > 0 {
		cfg.Metadata.RefreshFrequency = age
	}
	if client != "" {
		cfg.ClientID = client
	}
	g, err := ibm.NewConsumerGroup(strings.Split(bootstrap, ","), group, cfg)
	if err != nil {
		return err
	}
	for {
		// Applications call Consume again after an error.
		err := g.Consume(context.Background(), []string{topic}, printer{})
		if errors.Is(err, ibm.ErrClosedConsumerGroup) {
			return err
		}
		ibm.Logger.Print("Consume returned: ", err)
	}
}
