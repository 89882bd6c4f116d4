// Package errand gives errands to agents: work on the bucket with the records, to which only agents need access.
//
// A Dispatcher serves one virtual cluster. A caller names the work and waits, and the Dispatcher asks a connected agent with the jobs role, or any
// connected agent to mark its bucket:
//
//	the agent                                        the Dispatcher
//	answers                                          returns the answer
//	answers with an error, or not within 30 s        asks another agent
//	answers with names that were not asked for       drops the answer and asks another agent
//	loses its stream                                 asks again at once, another agent if there is one
//
// After 3 attempts, or if each agent has failed, the caller gets the last error. Without an agent it gets ErrNoAgent at once. An agent that
// failed comes last for a minute.
//
// Errands are idempotent and safe at any later time, so they are neither in the log nor under a lease. Each attempt has a random id. An
// answer with another id, or of another session, is late, repeated or unasked for. The Dispatcher counts it and drops it.
//
// Locks: the mutex of a Dispatcher is behind tenure.mu of package session. Done and Left are called with tenure.mu held or without it, so
// they call nothing back. The Dispatcher calls Agents without holding its mutex.
package errand
