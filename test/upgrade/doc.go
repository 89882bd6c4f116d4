// Package upgrade restarts a cluster from one build to another and back, process by process, under load. One build is of the
// base commit, which testdata/base names. The other is the binary under test. Both store data of the same generation, so agents
// and control planes of the two builds serve one cluster together: each agent works with an owner of either build, replicas of
// either build stand beside each other, and each build starts from snapshots of the other.
//
// Idempotent and transactional producers, a consume-transform-produce loop, groups of both protocols and readers of committed
// records run all the while. No client may see an error, no transaction may abort by itself, and no group may rebalance. In the
// end every acknowledged record must be there once, in order, and every reader must have read all of them.
//
// If internal/generation rises, the test is skipped until testdata/base names a commit of the new generation. Without
// FRESHET_UPGRADE=all, only the interleaved order runs; `make upgrade` runs all orders.
package upgrade
