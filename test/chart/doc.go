// Package chart checks the Helm chart of deploy/helm without a cluster: what it renders for a set of values, and what it
// refuses. test/kube runs it.
package chart
