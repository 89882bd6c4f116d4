// Package attacks has clients that ask for as much as the protocol allows, and shows that other clients are served meanwhile.
//
// Each attack runs against a `freshet dev` of its own with 512 MiB. Another client produces, fetches, sends heartbeats and asks for
// Metadata from the beginning of the attack until 5 s after its end. The longest time of each kind and the peak memory are printed. The test
// fails if a request of that client takes 10 s, if the process takes 640 MiB or ends, or if service is not whole 5 s after the attack.
package attacks
