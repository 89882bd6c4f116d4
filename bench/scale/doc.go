// Package scale measures many partitions and many idle clients: what the owner takes for them in memory, what agents take in
// CPU when one of them comes or goes and every client asks for Metadata anew, and whether producers notice.
//
// etcd, the control plane, the agents, the clients and the producers are processes of their own (bench/cluster). Clients
// are real connections, each of a consumer of one topic that asks for that topic's Metadata; some of them have a fetch
// parked at all times, the others are silent. All of them are told to refresh after a change, spread over a while, as
// clients do that notice it by themselves; those whose agent went away connect to another.
//
// The CPU of a change is that of the agent that used most, from the change's start until every client had its answer, less
// what that agent used in as long a time before: Metadata, new connections, and what the change itself takes.
package scale
