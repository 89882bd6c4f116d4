// Package harness runs Freshet and Kafka clients as real processes for the end-to-end tests: bin/freshet built from
// this tree, one process for `freshet dev` or several agents and control planes with etcd and an S3 server, each to be
// killed, paused, resumed, restarted or terminated by itself; and kcat, Apache Kafka's own tools, and librdkafka's
// Python client as the clients people use.
//
// What a client needs is fetched on first use into the user's cache directory. Where Java, Python or kcat is absent
// the test is skipped and says so; with CI=true absence is a failure.
package harness
