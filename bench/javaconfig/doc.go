// Package javaconfig takes the configuration of Java's Kafka clients, as benchmark files give it, to a franz-go client
// that behaves the same as far as it can.
//
// What is not given has the default of Java's client, not franz-go's: 3.6, which the OpenMessaging Benchmark is built
// with. A property that has no counterpart is a warning by its name; a value that Java's client would refuse is an
// error. A value that Java allows and franz-go does not is taken to the nearest it does, with a warning.
//
// What differs in kind: batch.size bounds a batch strictly here, so at least one record always fits; with idempotence
// five requests are in flight per broker whatever max.in.flight.requests.per.connection says, in order all the same.
package javaconfig
