// Package errand does the errands that the owner of the virtual cluster gives an agent: work on the bucket with the records.
//
// The agent protects its bucket from a faulty control plane. An errand names bundles by session and number, at most objstore.MaxKeys of
// them, or a session, and never a key. The keys follow from the names and from the prefix in Welcome. Objects and uploads younger than 10
// minutes by the store's clock stay: garbage is never as young. A rate bounds the deletions, aborts and LISTs of an agent. Each batch of
// deletions or aborts is logged.
//
// Four errands run beside each other, and 16 more wait. Further ones are refused. An errand ends 30 s after its arrival, whether it ran or
// waited. Before the agent has compared its bucket with the control plane's cluster id, it refuses all errands. An errand may be lost: the
// owner gives it to another agent. Errands are idempotent, so that is harmless.
package errand
