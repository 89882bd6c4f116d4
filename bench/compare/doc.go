// Package compare measures Apache Kafka and Freshet side by side: the same machine, the same workload and clients, one
// after the other with fresh data, in turn, so that what changes over time on the machine hits both. Ratios are made pair
// by pair. Linux only, since CPU time and memory are the kernel's counts.
//
// What runs:
//
//	Apache Kafka   one node that is broker and controller (KRaft), its official jars, its own defaults but for what a
//	               single node needs, a fixed heap. Records are in the page cache when they are acknowledged.
//	Freshet        one agent and one control plane, which has an etcd in its process that syncs to disk, with their
//	               defaults; a memory limit as large as Kafka's heap. Records are in an S3 server when they are
//	               acknowledged: every byte goes through versitygw over HTTP into a directory.
//
// Each side is charged with all of its processes; the S3 server is counted apart, because nobody runs one beside the real
// object store, and shown with it as well. The load generator runs in this process, on the same machine, and takes CPU
// from both alike.
package compare
