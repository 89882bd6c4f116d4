// Package load is the load engine of the benchmarks: producers that follow an open-loop schedule, consumers, and what
// both measured.
//
// A Rate says when each message is meant to be sent. Senders never wait for answers, only for the schedule and for room
// in the client's buffer; after a stall they send what is overdue as fast as they can, so that no message and no delay is
// left out (no coordinated omission). Three latencies come of it, all as the OpenMessaging Benchmark defines them:
// publish delay is actual minus intended send time, publish latency is acknowledgement minus actual send, end to end is
// arrival minus the record's timestamp.
//
// Timers of Go's runtime have steps of about a millisecond when nothing else goes on, so at low rates messages are up to
// that late, which the publish delay shows; the publish latency is counted from the actual send and has none of it.
package load
