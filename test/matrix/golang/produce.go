package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	ibm "github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"
)

// traffic is the work of an idempotent producer: a record after each pause. A value is NAME-NUMBER, a space and padding, uncompressed.
type traffic struct {
	library, topic, name, rack string
	bootstrap                  []string
	padding                    string
	pause, age                 time.Duration
}

// newTraffic reads the arguments after "produce".
func newTraffic(args []string) traffic {
	size, err := strconv.Atoi(args[4])
	if err != nil {
		panic(err)
	}
	return traffic{
		library: args[0], bootstrap: strings.Split(args[1], ","), topic: args[2], name: args[3], padding: strings.Repeat("x", size),
		pause: milliseconds(args[5]), age: milliseconds(args[6]), rack: args[7],
	}
}

// produce writes until standard input ends and then flushes. It prints "acked NAME-NUMBER" for each acknowledged record and
// "failed NAME-NUMBER ERROR" for each other one.
func produce(w traffic) error {
	switch w.library {
	case "franz-go":
		return w.franz()
	case "sarama":
		return w.sarama()
	}
	return fmt.Errorf("no such library: %s", w.library)
}

// each calls send with the words of all records, one after each pause, until standard input ends.
func (w traffic) each(send func(word string)) {
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // an error ends it too
		close(ended)
	}()
	pace := time.NewTicker(w.pause)
	defer pace.Stop()
	for i := 0; ; i++ {
		select {
		case <-ended:
			return
		case <-pace.C:
			send(fmt.Sprintf("%s-%d", w.name, i))
		}
	}
}

func outcome(word string, err error) {
	if err != nil {
		fmt.Println("failed", word, err)
		return
	}
	fmt.Println("acked", word)
}

func (w traffic) franz() error {
	options := []kgo.Opt{
		kgo.SeedBrokers(w.bootstrap...), kgo.DefaultProduceTopic(w.topic), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.MetadataMaxAge(w.age), kgo.MetadataMinAge(w.age / 4),
	}
	if w.rack != "" {
		options = append(options, kgo.Rack(w.rack), kgo.RackAwarePartitioning())
	}
	c, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer c.Close()
	w.each(func(word string) {
		c.Produce(context.Background(), kgo.StringRecord(word+" "+w.padding), func(_ *kgo.Record, err error) { outcome(word, err) })
	})
	return c.Flush(context.Background())
}

// retries lasts longer than a cluster takes to show the client other leaders. The library's 3 end within 300 ms.
const retries = 100

func (w traffic) sarama() error {
	cfg := ibm.NewConfig()
	cfg.Version, cfg.Metadata.RefreshFrequency, cfg.RackID = ibm.MaxVersion, w.age, w.rack
	cfg.Producer.Idempotent, cfg.Net.MaxOpenRequests, cfg.Producer.RequiredAcks = true, 1, ibm.WaitForAll
	cfg.Producer.Retry.Max, cfg.Producer.Return.Successes = retries, true
	cfg.Producer.Partitioner = ibm.NewRoundRobinPartitioner
	p, err := ibm.NewAsyncProducer(w.bootstrap, cfg)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		for m := range p.Successes() {
			outcome(m.Metadata.(string), nil)
		}
		close(ended)
	}()
	failed := make(chan struct{})
	go func() {
		for e := range p.Errors() {
			outcome(e.Msg.Metadata.(string), e.Err)
		}
		close(failed)
	}()
	w.each(func(word string) {
		p.Input() <- &ibm.ProducerMessage{Topic: w.topic, Value: ibm.StringEncoder(word + " " + w.padding), Metadata: word}
	})
	p.AsyncClose()
	<-ended
	<-failed
	return nil
}
