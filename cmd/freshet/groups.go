package main

import (
	"github.com/spf13/pflag"

	"github.com/freshet-io/freshet/internal/brokerconfig"
	"github.com/freshet-io/freshet/internal/config"
)

// groupServer puts the flags of dev, agent and controlplane into the groups of their help: the flags of every set-up first.
func groupServer(f *pflag.FlagSet) {
	kafka := config.Group{Heading: "Consumer groups and transactions"}
	for _, d := range brokerconfig.All() {
		kafka.Flags = append(kafka.Flags, brokerconfig.FlagName(d.Name))
	}
	config.SetGroups(f, append(serverGroups[:len(serverGroups):len(serverGroups)], kafka)...)
}

// connection has the flags of client commands about the way to a cluster.
var connection = config.Group{Heading: "Connection", Flags: []string{
	"url", "team", "token", "token-file", "password", "password-file", "new-password", "new-password-file", "control-plane-http", "virtual-cluster", "operator-key", "data-dir", "timeout", "client-id", "tls", "tls-ca", "tls-cert", "tls-key",
}}

var serverGroups = []config.Group{
	{Flags: []string{
		"data-dir", "etcd", "control-plane", "bucket", "virtual-cluster", "agent-key", "agent-keys", "operator-key", "operator-keys", "read-only-key", "read-only-keys", "zone", "kafka-listen", "grpc-listen", "advertise", "http-listen",
		"memory-limit", "max-connections", "max-connections-per-ip", "default-partitions", "auto-create-topics", "log-level", "log-format",
	}},
	{Heading: "Writing", Flags: []string{
		"put-budget", "fast-put-budget", "linger", "flush-interval", "flush-bytes", "hedge", "request-max-bytes", "one-zone-durability", "drain-timeout",
	}},
	{Heading: "Zones, and the addresses that clients see", Flags: []string{
		"zone-listeners", "client-zones", "listener-zones", "shared-advertise", "default-zone", "node-name",
	}},
	{Heading: "TLS, and the certificates of clients", Flags: []string{
		"kafka-tls-cert", "kafka-tls-key", "kafka-tls-client-ca", "tls-cert", "tls-key", "tls-client-ca", "tls-replica-ca",
		"control-plane-tls", "control-plane-tls-ca", "control-plane-tls-cert", "control-plane-tls-key",
	}},
	{Heading: "Other agents of the zone", Flags: []string{"peer-listen", "peer-advertise", "peer-tls-cert", "peer-tls-key", "peer-tls-ca"}},
	{Heading: "Public address, and the HTTP API for tenants", Flags: []string{"public-address", "public-listen", "public-tls-cert", "public-tls-key", "signup", "max-hosted-clusters", "public-url", "smtp-url", "mail-from", "trusted-proxies"}},
	{Heading: "Access to etcd", Flags: []string{
		"etcd-prefix", "etcd-username", "etcd-password", "etcd-tls", "etcd-tls-ca", "etcd-tls-cert", "etcd-tls-key", "no-etcd-maintenance",
	}},
	{Heading: "Retention and deletion", Flags: []string{"topic-undelete", "retention-check-interval", "garbage-grace", "orphan-sweep", "orphan-age"}},
	{Heading: "Background jobs and scaling", Flags: []string{"roles", "delete-rate", "no-jobs", "compact-after", "target-utilization", "network-limit"}},
	{Heading: "Ownership and metadata", Flags: []string{
		"replica-id", "state-bucket", "lease", "lease-renew", "self-fence", "session-timeout", "state-version", "snapshot-bytes", "snapshot-interval",
		"log-soft-limit", "log-hard-limit", "max-extents", "max-producers", "max-fresh-bundles",
		"max-topics", "max-partitions", "max-groups", "max-group-members", "max-transactional-ids", "max-offset-bytes", "max-text-bytes",
	}},
}
