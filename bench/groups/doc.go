// Package groups measures what many consumers cost while they do nothing but stay: the owner's CPU under the heartbeats of
// thousands of groups, and an agent's memory and CPU under thousands of idle connections.
//
// Agent, control plane (with its embedded etcd) and the simulated clients are processes of their own on loopback, so
// that CPU time and memory are the kernel's for just the one measured. The control plane's share contains etcd's.
//
// Members are simulated: the members of a group join and sync at once, as consumers that start together do, then
// heartbeat at the interval. Member i of every group is on a connection of lane i, since a join that waits holds up its
// connection; the connections of a lane are shared by groups, which take turns to join.
package groups
