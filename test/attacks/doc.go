// Package attacks tests that a client which asks for as much as the protocol allows does not stop the service for other clients.
//
// Each attack runs against its own `freshet dev` with a memory limit of 512 MiB. Another client, the bystander, produces, fetches, sends heartbeats and
// asks for Metadata until service is whole after the attack: 10 requests of each kind take less than 1 s. `make attacks` asserts that this is within
// 5 s. The test prints the longest time of each kind and the peak memory. It fails if a request of the bystander takes 10 s, or if the process takes
// 640 MiB or ends.
package attacks
