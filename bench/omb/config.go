package omb

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/freshet-io/freshet/bench/load"
	"github.com/freshet-io/freshet/bench/worker"
)

// Config of a run.
type Config struct {
	Driver    Driver
	Workload  Workload
	Bootstrap string        // if set, instead of the driver's bootstrap.servers
	Worker    worker.Worker // default: a local one
	Out       io.Writer     // of the console lines; default: none
	Progress  io.Writer     // of a progress bar, a terminal; default: none
}

// ApplyDefaults fills what is not set.
func (c *Config) ApplyDefaults() {
	if c.Worker == nil {
		c.Worker = worker.NewLocal("")
	}
	if c.Out == nil {
		c.Out = io.Discard
	}
}

// Validate gives all faults at once.
func (c *Config) Validate() error { return errors.Join(c.Driver.Validate(), c.Workload.Validate()) }

// Outcome is what a run gave: the content of its result file, and what that has no field for.
type Outcome struct {
	Result   Result
	Totals   load.Counters // of the whole run, probes and warm-up included, after all was received
	CPU      load.CPUUse   // of the busiest worker in its busiest period of the test
	Warnings []string

	Began, Ended time.Time // of the test, without warm-up
}

// keyBytes is more than any key takes, with what a record takes beside key and value.
const keyBytes = 32

// setup gives what workers need to know.
func (c *Config) setup() worker.Setup {
	return worker.Setup{
		Common: c.Driver.CommonConfig, Producer: c.Driver.ProducerConfig, Consumer: c.Driver.ConsumerConfig,
		Bootstrap: c.Bootstrap, RecordBytes: c.Workload.MessageSize + keyBytes,
	}
}

// payload gives what messages carry. Files are looked for as the framework does, in the working directory, and then from
// the workload file's folder and from the one above it, which is where the framework's own files are.
func (w *Workload) payload() (worker.Payload, error) {
	if w.UseRandomizedPayloads {
		return worker.Payload{Size: w.MessageSize, Ratio: w.RandomBytesRatio, Pool: w.RandomizedPayloadPoolSize}, nil
	}
	places := []string{w.PayloadFile}
	if folder := filepath.Dir(w.Path); w.Path != "" && !filepath.IsAbs(w.PayloadFile) {
		places = append(places, filepath.Join(folder, w.PayloadFile), filepath.Join(folder, "..", w.PayloadFile))
	}
	for _, place := range places {
		if _, err := os.Stat(place); err != nil {
			continue
		}
		payloads, err := load.FilePayload(place, w.MessageSize)
		if err != nil {
			return worker.Payload{}, err
		}
		return worker.Payload{Size: w.MessageSize, Content: payloads[0]}, nil
	}
	return worker.Payload{}, fmt.Errorf("%w: payloadFile is not there; looked for %q", ErrWorkload, places)
}

// backlogBytes gives the size of the backlog to build.
func (w *Workload) backlogBytes() float64 { return w.ConsumerBacklogSizeGB * (1 << 30) }

// drained gives the backlog, in messages, at which it counts as caught up with.
func (w *Workload) drained() int64 {
	capacity := math.Floor(w.backlogBytes() / float64(w.MessageSize))
	return max(1000, int64((1-w.BacklogDrainRatio)*capacity))
}
