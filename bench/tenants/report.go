package tenants

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// report prints figures and counts those above their bounds.
type report struct {
	out    io.Writer
	missed int
}

// add prints a figure with its bound.
func (r *report) add(name string, figure, bound float64) {
	verdict := "ok"
	if figure > bound {
		verdict = "MISSED"
		r.missed++
	}
	fmt.Fprintf(r.out, "%s %.2f (bound %g) %s\n", name, figure, bound, verdict)
}

// note prints a figure without a bound.
func (r *report) note(name string, figure float64) { fmt.Fprintf(r.out, "%s %.2f\n", name, figure) }

// idle prints what each of n idle virtual clusters costs, which is the difference of two measurements.
func (r *report) idle(before, after usage, n int) {
	each := func(before, after float64) float64 { return (after - before) / float64(n) }
	r.add("idle_resident_kib", each(before.resident, after.resident)/1024, 300)
	r.note("idle_heap_kib", each(before.heap, after.heap)/1024)
	r.add("idle_goroutines_beside_streams", each(before.goroutines, after.goroutines), 5)
	r.note("idle_goroutines_of_streams", each(before.streams, after.streams))
	r.add("idle_series", each(before.series, after.series), 10)
	// Replicas renew their leases and ask for other processes' state, whatever the number of virtual clusters.
	r.note("etcd_writes_per_second_without_idle", before.writes)
	r.add("idle_etcd_writes_per_second", round(each(before.writes, after.writes)), 0)
	r.note("idle_etcd_reads_per_second", each(before.reads, after.reads))
	r.add("idle_store_requests_per_second", round(each(before.requests, after.requests)), 0)
	r.note("cpu_percent_without_idle", before.cores*100)
	r.add("idle_cpu_percent_of_all", (after.cores-before.cores)*100, 5)
	r.note("scrape_cpu_seconds", after.scrape)
}

// round takes rates below one in 1,000 s for none: they are those of the replica, which differ between two measurements.
func round(rate float64) float64 {
	if rate < 0.001 {
		return 0
	}
	return rate
}

// stall prints what producers saw of one event.
func (r *report) stall(event string, longest time.Duration, errors int) {
	event = strings.ReplaceAll(event, " ", "_")
	r.add(event+"_longest_produce_seconds", longest.Seconds(), 1)
	r.add(event+"_client_errors", float64(errors), 0)
}
