package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	ibm "github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"
)

// drain reads a topic with a library until the process is killed, and prints each value.
func drain(library, bootstrap, topic, group, client string) error {
	switch library {
	case "franz-go":
		return drainFranz(bootstrap, topic, group, client)
	case "sarama":
		return drainSarama(bootstrap, topic, group, client)
	}
	return fmt.Errorf("no such library: %s", library)
}

func drainFranz(bootstrap, topic, group, client string) error {
	options := []kgo.Opt{
		kgo.SeedBrokers(bootstrap), kgo.ConsumeTopics(topic), kgo.ConsumerGroup(group), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}
	if client != "" {
		options = append(options, kgo.ClientID(client))
	}
	c, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	for {
		c.PollFetches(context.Background()).EachRecord(func(r *kgo.Record) { fmt.Println("read " + string(r.Value)) })
	}
}

// printer is a sarama consumer of a group that prints values.
type printer struct{}

func (printer) Setup(ibm.ConsumerGroupSession) error   { return nil }
func (printer) Cleanup(ibm.ConsumerGroupSession) error { return nil }

func (printer) ConsumeClaim(_ ibm.ConsumerGroupSession, claim ibm.ConsumerGroupClaim) error {
	for m := range claim.Messages() {
		fmt.Println("read " + string(m.Value))
	}
	return nil
}

func drainSarama(bootstrap, topic, group, client string) error {
	ibm.Logger = log.New(os.Stderr, "sarama ", log.Ltime|log.Lmicroseconds)
	cfg := ibm.NewConfig()
	cfg.Version, cfg.Consumer.Offsets.Initial, cfg.Consumer.Offsets.AutoCommit.Enable = ibm.MaxVersion, ibm.OffsetOldest, false
	if client != "" {
		cfg.ClientID = client
	}
	g, err := ibm.NewConsumerGroup([]string{bootstrap}, group, cfg)
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
