// Package client is the agent's side of its conversation with the control plane: one Session finds the owner of its
// virtual cluster through any replica, keeps one stream to it, and hides reconnections from its callers.
//
// # What survives what
//
//	stream lost, owner changed   the same session goes on; unanswered commits, abandons, look-ups, forwards and
//	                             parts of jobs are sent again in their original order, probes anew
//	session closed by the owner  OnSessionClosed is called, a new session is opened under a fresh instance name.
//	                             Unanswered commits of the closed session are asked about by name on the new one:
//	                             the answer is their true result, or ErrSessionClosed if nothing of them took effect
//	a caller's context ends      the call returns ErrUnavailable; the outcome of a commit is then unknown, and
//	                             known by calling Commit again with the same bytes (I3)
//
// A forwarded request whose answer was lost is sent again too. Those that change something are not deduplicated
// across owners: a CreateTopics that took effect before the owner died answers TOPIC_ALREADY_EXISTS the second time,
// as a Kafka controller's fail-over does.
//
// # Order
//
// Handler methods are called on one goroutine in the order of the stream, which is log order for what concerns state.
// A call returns after the handler was given everything that the owner sent before its answer.
package client
