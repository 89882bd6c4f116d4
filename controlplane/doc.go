// Package controlplane is one control-plane replica: it composes, for every virtual cluster, a replica of its state
// machine with the session side that agents talk to, and serves gRPC for agents and HTTP for operators.
//
// A virtual cluster that has to stop on this replica (its state differs from the owner's, say) does not stop the
// others (I10): the process goes on, not ready, until none is left.
package controlplane
