package tco

import (
	"errors"
	"fmt"

	"github.com/freshet-io/freshet/bench/tco/catalog"
)

const (
	// kafkaBrokers and kafkaCopies are the fewest brokers and the replication factor of a durable cluster.
	kafkaBrokers, kafkaCopies = 3, 3
	// diskUse is the used share of brokers' disks, as in AutoMQ's bill of Apache Kafka.
	diskUse = "0.8"
)

// KafkaFloor returns a lower bound of Apache Kafka's bill for w, which must be valid: disks, traffic across zones and the fewest
// brokers. Consumers read from a replica in their zone (KIP-392). Tiered storage is not used.
func KafkaFloor(w Workload, prices *catalog.Prices) (Table, error) {
	b := &book{prices: prices}
	t := Table{
		ID: "kafka-floor", Prices: b.use(catalog.Own),
		Title: fmt.Sprintf("Apache Kafka, at least, %s: %d copies on EBS, %d zones, retention %s; a month of 730 hours", w.Name, kafkaCopies, w.Zones, hours(w.Retention.Hours())),
	}
	rate := w.meanThroughput() / w.CompressionRatio / mib
	wire := rounded(rate, placesOf(rate), "MiB/s")
	zones, others := several(w.Zones, "zone"), several(w.Zones-1, "other zone")
	month := wire.times(num("1048576", "B"), monthSeconds).over(num("1000000000", "B/GB"))

	brokers := *t.own("brokers", USDMonth, 2, count(kafkaBrokers, "").times(b.price(w.ControlInstance), month730))
	produce := *t.own("producers to leaders in other zones", USDMonth, 2, month.times(others).over(zones).times(b.price("cross-zone")))
	replicate := *t.own("replication to other zones", USDMonth, 2, month.times(count(int64(min(w.Zones, kafkaCopies)-1), "copies"), b.price("cross-zone")))
	l := t.own("stored", "GiB", 1, wire.times(rounded(w.Retention.Seconds(), 0, "s")).over(num("1024", "")))
	disks := *t.own("disks", USDMonth, 2, dec(l.Shown(), "GiB").times(count(kafkaCopies, "copies")).over(num(diskUse, "full")).times(b.price("gp3")))
	t.own("total", USDMonth, 2, total(brokers, produce, replicate, disks))
	t.Notes = []string{
		fmt.Sprintf("A lower bound: %d brokers of type %s, which are controllers too, whatever the rate. Consumers read from a replica in their zone.", kafkaBrokers, w.ControlInstance),
		"Tiered storage, which would lower the line of the disks, is not used.",
	}
	return t, errors.Join(b.faults...)
}
