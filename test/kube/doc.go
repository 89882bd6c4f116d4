// Package kube runs the chart of deploy/helm on a real Kubernetes: two nodes that are zones, in network namespaces (cluster.sh). Stock
// producers and groups run inside the cluster, and outside of it without a route to pods or services. Meanwhile agents are scaled, rolled,
// evicted, killed and cut off. In the end every record must be there once, in order, at the offset that its producer was told, and
// no application may have seen an error. `make e2e-kube` runs it as root on Linux; other test commands skip it.
// Each phase logs the share of its time in which tasks of the machine waited for CPU and disk, if the kernel has /proc/pressure.
// FRESHET_KUBE=zones runs the first two phases only: zone 2 gets its first agents. It takes 90 s.
package kube
