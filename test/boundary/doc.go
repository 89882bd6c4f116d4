// Package boundary checks that control planes see no records (I8), and that agents need no more than an HTTPS proxy to reach control planes. A
// cluster runs in four network namespaces.
//
//	agents   10.200.1.0/24   two agents; clients. Links to store and edge
//	store    10.200.2.0/24   10.200.2.1, S3 with the records
//	edge     10.200.3.0/24   10.200.3.1, the HTTPS proxy. It connects to control-0.test:443 and control-1.test:443, which nothing else resolves
//	control  10.200.4.0/24   10.200.4.1 etcd, 10.200.4.2 S3 with the state, 10.200.4.3 and 10.200.4.4 control planes. A link to edge
//
// Random records are written, merged and deleted while owners end and change. The test then searches for them in all bytes that control
// planes received, logged and stored. The program under test has shorter minimum ages of deleted objects, so garbage collection and orphan
// sweeps happen within the test. make e2e-boundary runs it.
package boundary
