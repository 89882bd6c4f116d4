package omb

import (
	"errors"
	"fmt"
)

// Driver is a driver file of the framework's Kafka driver: what clients and topics are configured with. The texts are
// Java properties.
type Driver struct {
	Name              string `yaml:"name"`
	DriverClass       string `yaml:"driverClass"`
	ReplicationFactor int16  `yaml:"replicationFactor"`
	Reset             bool   `yaml:"reset"` // remove the topics of earlier runs, by the prefix of their names
	TopicConfig       string `yaml:"topicConfig"`
	CommonConfig      string `yaml:"commonConfig"`
	ProducerConfig    string `yaml:"producerConfig"`
	ConsumerConfig    string `yaml:"consumerConfig"`
}

// kafkaDriver is the class whose files these are.
const kafkaDriver = "io.openmessaging.benchmark.driver.kafka.KafkaBenchmarkDriver"

// ErrDriver says that a driver file cannot be used.
var ErrDriver = errors.New("driver")

// Validate gives all faults at once. The properties are checked by who reads them.
func (d *Driver) Validate() error {
	var faults []error
	if d.Name == "" {
		faults = append(faults, fmt.Errorf("%w: name is missing, result files are named by it", ErrDriver))
	}
	if d.ReplicationFactor < -1 || d.ReplicationFactor == 0 {
		faults = append(faults, fmt.Errorf("%w: replicationFactor is %d, allowed are -1 (the server's default) and 1 or more", ErrDriver, d.ReplicationFactor))
	}
	return errors.Join(faults...)
}
