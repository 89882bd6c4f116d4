// Package peer makes the caches of a zone's agents one: an agent that lacks a unit of a bundle asks the agent that wrote
// the bundle, whose memory has what it committed, or else the unit's owner, which is found by rendezvous hashing and
// reads it from the object store once for all. So a bundle costs at most one GET in each zone but the writer's (I7).
//
// Nothing rests on it. An agent that cannot be reached, does not answer in time, says no or sends what is no unit costs
// a bounded wait; it is then left out, its share falls to the others, and whoever waited for it asks the one that has it
// now, so that the zone still makes one GET. Only if that fails too does the asker read the object store itself. After 5 s
// single requests try whether the agent answers again; all others go on without it until it does.
//
// Agents never ask on behalf of each other: who is asked reads its memory or the object store, so there are no rings.
//
// # Who is asked
//
// All agents know the membership, and compute the same owner from it. A change moves only the share of the agent that
// came or went. While agents have heard of it at different times, each of two owners may make a GET; that is all.
// Agents of other zones are not in the computation, and refuse requests that come all the same (I6).
//
// # Protocol
//
// HTTP/1.1 with connections kept, over TLS where configured.
//
//	GET /v1/bundles/{session}/{n}?unit=…&unit=…&class=live|catch_up&read=true|false
//	Authorization: Bearer {secret of the virtual cluster}
//	Freshet-Cluster: {cluster id}
//	Freshet-Zone: {zone}
//	Freshet-Agent: {asker's session}
//
// A unit is "whole" or the position that it begins at; one request asks for at most 16 of one bundle. read tells whether
// what is not in memory is to be read from the object store. The answer's headers come at once, so that silence tells an
// agent that hangs from one that reads; its body has the units in the order asked. Integers are big endian.
//
//	part      size  content
//	head        12  see below
//	stretches    n  if the result is 0: 4 bytes position in the object, 4 bytes length, the bytes; repeated until the
//	                size is reached
//
// Head of a unit:
//
//	offset  size  field
//	0          1  result: 0 unit follows, 1 not in memory, 2 no such object, 3 failed, 4 pending: not in memory
//	              yet, the writer is still handing the bundle over. Unknown results count as 3
//	1          1  flags: 1 some of the object's bytes are left out
//	2          2  reserved, 0
//	4          8  size of all its stretches' bytes
//
//	GET /v1/streams
//	Connection: Upgrade
//	Upgrade: {protocol}
//
// with the same headers makes the connection a stream of another protocol (package zonewriter).
//
// # Secret
//
// The owner tells agents a secret of the virtual cluster, with Welcome and when it changes (Secret). A server takes the previous secret
// for a minute after a change. An asker shows the current one, and the previous one to an agent that refuses it within that minute.
// Before the first Welcome, and while the owner is an older program that tells no secret, an agent asks no other agent and answers none.
// Streams that are open stay. Agent keys open only the control plane.
//
// # Connections
//
// An agent keeps up to 4 idle connections to each other agent and 256 in all, for 2 minutes. It has at most 192 requests in
// flight. A server accepts up to 1024 connections beside its streams. That suffices for a zone of 200 agents: 796 idle
// connections and the 192 requests that a server answers at once. 1024 connections without TLS take 24 MiB. The buffers of
// 256 idle connections take 9 MiB at the asking agent.
//
// At the bound a new connection replaces a connection without a request with the secret, else the one that has been idle for
// longest, in the order of package internal/connlimit. So strangers and idle connections keep out neither reads nor streams. Reads
// do not keep out streams either: a read beyond 192 is refused at once, and its connection becomes idle.
//
// Bytes may have been patched (package cache); the asker verifies and patches as if they came from the object store,
// which changes nothing where it was done. What fails verification there is read from the object store.
package peer
