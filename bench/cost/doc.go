// Package cost measures what the agent's data path costs in CPU, as a ratio to a floor that cannot be avoided.
//
// The floor is a program that does only what any such broker must: receive the bytes over TCP, checksum them
// (CRC-32C) and PUT them as 8 MiB objects; and, for the read side, send the same bytes from memory. The agent does the
// same work under real franz-go clients. Floor, agent, clients and the null S3 endpoint are processes of their own, so
// that CPU seconds are the kernel's count for just the one measured; rounds of floor and agent alternate in one run,
// and ratios are taken pair by pair, which is what survives a noisy machine.
//
// "GiB" is 2^30 bytes as they crossed TCP, counted by the loads: for the floor all there are, for the agent those of
// produce requests and fetch responses, framing included (0.1 % in shape A).
package cost
