// Package harness runs Freshet and Kafka clients as real processes for the end-to-end tests: bin/freshet built from
// this tree, one process for `freshet dev` or several agents and control planes with etcd and an S3 server, each to be
// killed, paused, resumed, restarted or terminated by itself; and kcat, Apache Kafka's own tools, and librdkafka's
// Python client as the clients people use.
//
// JVMs are the dearest of it: Java clients of a package share one (Main, JavaWorker), all start from an archive of loaded
// classes, and brokers from a formatted log directory, both of which are made once.
//
// What a client needs is fetched, compiled and prepared on first use, into the user's cache directory. Where Java, Python or
// kcat is absent the test is skipped and says so; with CI=true absence is a failure.
package harness
