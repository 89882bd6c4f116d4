// Package omb runs benchmarks that are written for the OpenMessaging Benchmark framework (openmessaging.cloud) against
// any Kafka endpoint: the same workload and driver files, the same course of a run, the same lines on the console, and
// result files with the same fields in the same order, so that results compare and other tools for them go on working.
//
// A run makes topics, consumers and producers; sends a probe with each producer and waits until every subscription has
// seen one; starts the load; warms up; measures. A workload may ask for a backlog (consumers pause until so much has
// gathered, then catch up) or, with a rate of zero, for the highest rate that the system sustains.
//
// What differs from the framework, and why: probes of all producers are waited for, not one of each topic, and all
// consumers' joining of their groups, so that every consumer is ready and no group rebalances in the test; what was
// counted is committed before a rebalance, so that nothing is counted twice; the rate of a search is compared with what
// each subscription received, not with the sum of them; a rate that follows a curve changes every second rather than
// every five, and keeps what is overdue; the last period is stretched or shortened so that tests have their length;
// after the test, what was sent may arrive for ten seconds more, and what does not is a warning; reset removes topics
// of earlier runs, not all topics there are; histograms are exact to 0.01 % (package load says why).
//
// Fields that AutoMQ's fork of the framework added are understood too: partitionsPerTopicList, producersPerTopicList,
// randomTopicNames, producerRateList, logIntervalMillis and the driver's reset. Durations, rates and sizes may have
// fractions here, so that workloads can be scaled down.
package omb
