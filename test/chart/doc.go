// Package chart checks the Helm chart of deploy/helm without a cluster: what it renders for a set of values, and what it
// refuses. test/kube installs the chart.
package chart
