// Package tenants measures two replicas of the control plane that serve many virtual clusters, most of them idle. Linux only.
//
// etcd, the replicas and the agents of loaded clusters are processes of their own on loopback. The buckets are directories. An idle virtual
// cluster has one agent's stream and one group with one member, which sends a heartbeat every 3 s. One process cannot run a thousand
// agents, so this package opens the streams by controlplane/client, without Kafka clients: they cost the replicas what those of agents cost.
//
// Figures of an idle virtual cluster are differences between two measurements, one before and one after the idle clusters, of both
// replicas together. Faults come last, under the load of all loaded clusters: kill -9 of a replica, then SIGTERM and start of each.
package tenants
