package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/freshet-io/freshet/internal/metrictest"
)

// measured are the packages that have metrics, in the order of the page.
var measured = []struct{ heading, dir string }{
	{"Kafka listener (agent)", "agent/edge"},
	{"Metadata (agent)", "agent/kafka"},
	{"Writing (agent)", "agent/writer"},
	{"Writers of the zone (agent)", "agent/zonewriter"},
	{"Write buffers (agent)", "agent/slab"},
	{"Opened batches (agent)", "agent/recode"},
	{"Fetching (agent)", "agent/fetch"},
	{"Cache (agent)", "agent/cache"},
	{"Cache of the zone (agent)", "agent/peer"},
	{"Background jobs (agent)", "agent/job/runner"},
	{"Errands (agent)", "agent/errand"},
	{"Merging bundles (agent)", "agent/job/merge"},
	{"Cleaning of compacted topics (agent)", "agent/job/clean"},
	{"Partition views (agent)", "agent/view"},
	{"Client telemetry (agent)", "agent/telemetry"},
	{"Load (agent)", "agent/load"},
	{"Session with the owner (agent)", "controlplane/client"},
	{"Object store (agent and control plane)", "objstore/meter"},
	{"Hedging (agent)", "objstore/hedge"},
	{"Connections without an agent key (control plane)", "controlplane"},
	{"Connections of tenants (control plane)", "controlplane/registry/httpapi"},
	{"Expiry of tenants' virtual clusters and accounts (control plane)", "controlplane/registry/expiry"},
	{"Mails to tenants (control plane)", "controlplane/registry/mail"},
	{"Agents' sessions (control plane, the owner)", "controlplane/session"},
	{"Zone writers (control plane, the owner)", "controlplane/zonewriter"},
	{"Size of zones (control plane, the owner)", "controlplane/scale"},
	{"Groups (control plane, the owner)", "controlplane/group"},
	{"Retention and garbage (control plane, the owner)", "controlplane/lifecycle"},
	{"Background jobs (control plane, the owner)", "controlplane/job"},
	{"Errands (control plane, the owner)", "controlplane/errand"},
	{"Owner (control plane)", "controlplane/owner"},
	{"Replica (control plane)", "controlplane/replica"},
	{"Metadata log (control plane)", "metadata/metalog"},
	{"etcd (control plane, the elected maintainer)", "metadata/metalog/etcdlog"},
}

// Metrics gives docs/metrics.md, made of the golden files that the packages' tests compare with their metrics. root is
// the repository's directory.
func Metrics(root string) (string, error) {
	var b strings.Builder
	b.WriteString(generated + `# Metrics

Both processes serve them at ` + "`/metrics`" + ` of their HTTP address, with Go's own (` + "`go_*`, `process_*`" + `). Those of one virtual cluster have a label
` + "`virtual_cluster`" + ` too. Of the virtual clusters in etcd, of which there may be thousands, control planes show gauges alone with that label, none that is 0, and neither limits nor log indexes. Their
counters and histograms count together, without the label. What to look at first:

| Question | Metric |
|---|---|
| Do clients get errors, and which? | ` + "`freshet_kafka_errors_total`" + ` |
| How long do they wait? | ` + "`freshet_kafka_request_seconds`" + ` with ` + "`api`" + ` Produce or Fetch; idle long polls count with their wait |
| Bytes in and out | ` + "`freshet_kafka_request_bytes_total`, `freshet_kafka_response_bytes_total`" + ` |
| What do requests to the object store cost? | ` + "`freshet_objstore_requests_total`" + ` by ` + "`operation`" + `: [scaling.md](scaling.md#what-requests-cost) |
| How busy are agents, and how many should there be? | ` + "`freshet_agent_utilization_ratio`, `freshet_zone_desired_replicas`" + `: [scaling.md](scaling.md) |
| Is the store slow or failing? | ` + "`freshet_writer_put_seconds`, `freshet_objstore_errors_total`" + ` |
| Are bundles full? | ` + "`freshet_writer_bundle_bytes`, `freshet_writer_seals_total`" + ` by ` + "`reason`" + ` |
| Is the agent in touch with the owner? | ` + "`freshet_agent_session_connected`" + ` |
| Is there exactly one owner? | ` + "`sum by (virtual_cluster) (freshet_replica_owned_logs)`" + ` |
| Do the agents of a zone share what they read? | ` + "`freshet_peer_fallbacks_total`" + ` by ` + "`reason`" + `, beside ` + "`freshet_cache_gets_total`" + ` |
| Does the metadata log get trimmed? | ` + "`freshet_replica_untrimmed_log_bytes`" + `; slowed at 256 MiB, refused at 512 MiB |
| Does background work keep up? | ` + "`freshet_owner_metadata_share`" + `; slowed at 0.75, refused at 1 |
| Do topics and groups fill their half of the metadata's memory? | ` + "`freshet_owner_topics_and_groups_share`" + `: alert at 0.9; at 1 new ones are refused |
| Do clients start too many producers? | ` + "`freshet_owner_producer_share`" + `: alert at 0.5; at 1 new producers are refused. ` + "`freshet_owner_producer_bytes`" + ` is their memory |
| Do connections reach their bound? | ` + "`freshet_kafka_connections_refused_total`, `freshet_kafka_connections_evicted_total`" + ` by ` + "`reason`" + `; the log names address and setting |
| Is memory short? | ` + "`freshet_kafka_request_memory_waiting`, `freshet_write_buffer_waits_total`, `freshet_fetch_shrunk_answers_total`, `freshet_fetch_shortened_total`" + ` |
`)
	for _, m := range measured {
		golden, err := os.ReadFile(filepath.Join(root, m.dir, metrictest.File))
		if err != nil {
			return "", fmt.Errorf("metrics of %s: %w", m.dir, err)
		}
		fmt.Fprintf(&b, "\n## %s\n\n| Metric | Kind | Labels | Meaning |\n|---|---|---|---|\n", m.heading)
		for line := range strings.Lines(string(golden)) {
			name, rest, _ := strings.Cut(strings.TrimSpace(line), " (")
			what, help, _ := strings.Cut(rest, "): ")
			kind, labels, _ := strings.Cut(what, " by ")
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, kind, labels, help)
		}
	}
	return b.String(), nil
}
