package matrix

import (
	"fmt"
	"strings"

	"github.com/freshet-io/freshet/kafkaproto"
)

// checks are what each program is asked to do, in the order of the table's columns.
var checks = []string{"list", "regex", "none", "gzip", "snappy", "lz4", "zstd", "group", "admin", "transactions"}

// client is one library in one version.
type client struct {
	name, version string
	// pin is the file and the line in it that pin the version; none for kcat, which is the system's.
	pinFile, pin string
	// none are the checks of what the library does not have, with the reason.
	none map[string]string
}

func (c client) String() string { return c.name + " " + c.version }

var noRegex = "takes names of topics only"

// clients are the rows of the table.
var clients = []client{
	python("confluent-kafka", "2.0.2"),
	python("confluent-kafka", "2.3.0"),
	python("confluent-kafka", "2.6.1"),
	python("confluent-kafka", "2.15.1"),
	python("confluent-kafka", "2.16.1"),
	python("kafka-python", "3.0.12"),
	python("aiokafka", "0.14.0"),
	node("kafkajs", "2.2.4", map[string]string{"zstd": "has no codec package for it that needs no other download"}),
	node("@confluentinc/kafka-javascript", "1.10.1", nil),
	golang("sarama", "github.com/IBM/sarama", "1.61.1", map[string]string{"regex": noRegex}),
	golang("kafka-go", "github.com/segmentio/kafka-go", "0.4.51", map[string]string{
		"regex": noRegex, "transactions": "begins and ends transactions, and cannot write in one",
	}),
	golang("franz-go", "github.com/twmb/franz-go", "1.22.3", nil),
	{name: "Apache Kafka for Java", version: "2.8.2"},
	{name: "Apache Kafka for Java", version: "3.9.1"},
	{name: "Apache Kafka for Java", version: kafkaproto.KafkaVersion},
	{name: "kcat", version: "the system's", none: map[string]string{
		"admin": "has no administration", "transactions": "has none",
	}},
}

func python(name, version string) client {
	return client{name: name, version: version, pinFile: "python/requirements/" + name + "-" + version + ".txt", pin: name + "==" + version}
}

func node(name, version string, none map[string]string) client {
	return client{name: name, version: version, pinFile: "node/package.json", pin: fmt.Sprintf("%q: %q", name, version), none: none}
}

func golang(name, module, version string, none map[string]string) client {
	return client{name: name, version: version, pinFile: "golang/go.mod", pin: module + " v" + version, none: none}
}

// table renders the clients as docs/clients.md shows them.
func table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| Client | Version | %s |\n|---|---|%s\n", strings.Join(checks, " | "), strings.Repeat("---|", len(checks)))
	for _, c := range clients {
		fmt.Fprintf(&b, "| %s | %s |", c.name, c.version)
		for _, check := range checks {
			outcome := "ok"
			if c.none[check] != "" {
				outcome = "–"
			}
			fmt.Fprintf(&b, " %s |", outcome)
		}
		b.WriteString("\n")
	}
	b.WriteString("\nWhat a client does not have:\n\n")
	for _, c := range clients {
		for _, check := range checks {
			if reason := c.none[check]; reason != "" {
				fmt.Fprintf(&b, "- %s, %s: %s.\n", c.name, check, reason)
			}
		}
	}
	return b.String()
}
