// Package zonewriter plans which agents of a zone write bundles and which hand their batches to one of those, so that
// PUTs follow bytes and zones and not the number of agents (I7), and no writer is a hot spot.
//
// # What the plan is made of
//
// The members are the open agents of a zone that take produce requests and do not drain. Once a second they say what
// their clients send (package load), on the mean of some seconds; the plan follows what rises at once, and what falls over
// about 10 s. [Assign] is the plan, a pure function of
// the members, their rates and the plan before:
//
//	who                                   writes
//	does not take batches: an old one,    its own batches, apart
//	  one that said nothing for 3 s
//	has 32 MiB/s (flush-bytes over        its own, and others' as far as there is room; until it
//	  flush-interval) or more               has less than half of that
//	chosen                                its own and others'
//	all others                            nothing: they hand over to one of the two above
//
// Writers that take others' batches: the zone's rate over 64 MiB/s, rounded up. More at once; fewer only when the rate
// is below 75 % of what they would carry. Who has written goes on, further ones are chosen by rendezvous hashing. An agent
// follows its hash over the writers, to those that are below 1.25 times the mean, and then stays: until its writer goes,
// until one is added that its hash prefers, or until the writer carries 64 MiB/s more than the mean. No writer ever does
// carry more than that, but for one that has it from its own clients alone, which nobody can take off it.
//
// Every writer has an equal part of the zone's PUT budget, the agents apart too. The owner saves the PUTs that writers report as
// unused, at most an hour's budget, and lends them to writers that ask for more (package putbudget). It lends nothing while
// commits are delayed, or metadata is at 3/4 of its bound. Savings last as long as the ownership.
//
// # Who is told when
//
// A [Tenure] belongs to one ownership. A change of the membership makes a new plan at once, so a writer that has drained,
// or whose session was closed, is replaced within a round trip; the first report of an agent and one that says
// otherwise than before do too; rates every 10 s, or within a second if more writers are needed. An agent is told when
// its writer or its part of the budget has changed, and once on every new stream.
//
// Nothing of it is in the log. A new owner knows no rates, and the agents keep what they were told last: it tells the
// agents of a zone nothing before all of them have said their load, or 3 s have passed. They say with it which writer they
// were told, so that it goes on from the plan of the owner before. An agent that has never said it
// knows no writers, and is never told one.
package zonewriter
