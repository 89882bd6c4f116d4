// Package cluster runs Freshet for benchmarks as users do: etcd, a control plane, agents and an object store are processes
// of their own on loopback, so that CPU time and memory are the kernel's for just the one measured. The object store
// forgets what it is given (bench/cost), so there is nothing to read but what agents have in memory; agents may see it as
// slow as a model (objstore/latency). Linux only.
package cluster
