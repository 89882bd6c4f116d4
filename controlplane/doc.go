// Package controlplane is one control-plane replica: it composes, for every virtual cluster, a replica of its state
// machine with the session side that agents talk to, and serves gRPC for agents and HTTP for operators.
//
// Virtual clusters are described in the settings or in etcd (package directory). They start, change and stop while the replica runs
// (reconcile.go). A virtual cluster that ends with an error, because its state differs from the owner's, say, does not stop the others (I10), and
// starts again after a pause. If none is left, the process ends.
package controlplane
