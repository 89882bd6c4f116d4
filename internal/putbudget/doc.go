// Package putbudget is the arithmetic of a zone's PUT budget, without clocks, locks or messages.
//
// The budget is a rate: PUTs per second of bundles that are not full. Each writer of the zone has a share of it in a
// [Bucket], which holds one second's tokens. Tokens that overflow a bucket are not lost: the writer counts them, the owner
// adds them to the zone's [Savings], and lends them to writers that could use more PUTs than their share. So in any T hours,
// a zone makes at most budget x (T + 1 h) PUTs of the kind that the budget governs.
//
//	writer: Bucket -- unused, spent, wanted --> owner: Savings, a Loan for each writer
//	        Credit <------ limit --------------
//
// Unused, spent and limit are totals of an agent's session. So a message that is lost or repeated changes no sum. If a
// writer ends, hands over or meets another owner, its unspent loan is lost. A new owner begins without savings.
package putbudget
