// Package topicconfig is the table of Kafka's topic configs: name, type, default, which values are valid, and what
// each does here. The control plane validates and describes by it, agents read effective values through Values. It
// imports nothing of either.
//
// Names, types, defaults and bounds are those of Apache Kafka 4.4 (TopicConfig and LogConfig). A name that Kafka
// removed before 4.4 (message.format.version, message.downconversion.enable, message.timestamp.difference.max.ms) is
// unknown, as it is there.
package topicconfig
