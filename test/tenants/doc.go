// Package tenants runs many virtual clusters on one hosted control plane of two replicas, real etcd and a real S3 server. Stable tenants
// with stock clients run beside others that come and go, that attack, or that are at their caps (I10).
//
// Times are printed, not asserted.
package tenants
