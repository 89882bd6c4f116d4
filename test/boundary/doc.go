// Package boundary checks that control planes see no records (I8). A cluster runs in three network namespaces. Agents reach both
// others. Between the other two there is no route.
//
//	agents   10.200.1.0/24   two agents; clients
//	store    10.200.2.0/24   10.200.2.1, S3 with the records
//	control  10.200.3.0/24   10.200.3.1 etcd, 10.200.3.2 S3 with the state, 10.200.3.3 and 10.200.3.4 control planes
//
// Random records are written, merged and deleted while owners end and change. The test then searches for them in all bytes that control
// planes received, logged and stored. The program under test has shorter minimum ages of deleted objects, so garbage collection and orphan
// sweeps happen within the test. make e2e-boundary runs it.
package boundary
