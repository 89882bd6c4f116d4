package tco

import (
	"fmt"
	"math"
	"strings"

	"github.com/shopspring/decimal"

	"github.com/freshet-io/freshet/bench/tco/catalog"
)

// computers are agents, control-plane replicas and the disks of etcd.
func (b *biller) computers() error {
	w := b.w
	agentHours, note, err := b.agentHours()
	if err != nil {
		return err
	}
	b.pay("agents", agentHours.times(b.price(b.s.instance.Name))).Note = note
	replicas := count(int64(w.ControlReplicas), "")
	b.pay("control plane", replicas.times(b.price(w.ControlInstance), month730)).Note = w.ControlInstance + ", with etcd"
	b.pay("disks of etcd", replicas.times(count(int64(w.ControlDiskGiB), "GB"), b.price("gp3")))
	return nil
}

// agentHours is the month's hours of agents, and a note on what their number follows from.
func (b *biller) agentHours() (Expr, string, error) {
	stays, binds, err := b.s.day(b.w.phases())
	if err != nil {
		return Expr{}, "", err
	}
	top := 0
	texts := make([]string, len(stays))
	for i, s := range stays {
		top = max(top, s.agents)
		texts[i] = fmt.Sprintf("%d for %.2f h", s.agents, s.hours)
	}
	note := fmt.Sprintf("%d at the peak; what binds: %s", top, binds)
	if len(stays) == 1 {
		return count(int64(top), "").times(month730), note, nil
	}
	note += "; a day has " + strings.Join(texts, ", ")
	return rounded(agentHours(stays), 2, "agent-hours a day").times(month730).over(num("24", "h")), note, nil
}

// requests are those to the object store, and to KMS.
func (b *biller) requests() {
	w := b.w
	prefix := "s3-"
	copies := num("1", "")
	if w.Store == S3Express {
		prefix, copies = "express-", count(int64(w.Copies), "copies")
	}
	hedged := rounded(1+w.HedgedPuts, 4, "hedged")
	b.pay("PUT of bundles", b.copied(b.puts.times(hedged), copies).times(monthSeconds, b.price(prefix+"put")))
	b.pay("GET of live reads", b.gets.times(monthSeconds, b.price(prefix+"get")))
	b.pay("compaction, requests", b.copied(b.compactPuts, copies).times(monthSeconds, b.price(prefix+"put")).
		plus(b.compactGets.times(monthSeconds, b.price(prefix+"get"))))
	if w.Store == S3Express {
		b.expressBytes(hedged, copies)
	}
	b.kms()
}

// copied multiplies by the number of copies, if there are several.
func (b *biller) copied(e, copies Expr) Expr {
	if copies.value.Equal(decimal.NewFromInt(1)) {
		return e
	}
	return e.times(copies)
}

// expressBytes are what S3 Express One Zone charges for bytes in and out, besides requests.
func (b *biller) expressBytes(hedged, copies Expr) {
	gib := num("1024", "")
	rewritten := b.wire.times(several(max(b.w.Rewrites, 0), "time"))
	in := b.copied(b.wire.times(hedged).plus(rewritten), copies)
	b.pay("Express, bytes in", in.times(monthSeconds).over(gib).times(b.price("express-upload")))
	out := b.readBytes().plus(b.rereads())
	b.pay("Express, bytes out", out.times(monthSeconds).over(gib).times(b.price("express-retrieval")))
}

// readBytes is MiB a second that live reads take out of the store: each GET is of a whole bundle.
func (b *biller) readBytes() Expr {
	perBundle := b.r.gets / b.r.puts / unitsOf(b.w.BundleBytes)
	return b.wire.times(rounded(perBundle, 2, "reads"))
}

func (b *biller) kms() {
	all := b.puts.plus(b.gets, b.compactPuts, b.compactGets)
	switch b.w.KMS {
	case KMSNone:
		b.pay("KMS", num("0", "requests")).Note = "SSE-S3: the store's own keys are free"
	case KMSBucketKeys:
		b.pay("KMS", all.times(num(bucketKeyShare, ""), monthSeconds, b.price("kms-request")).plus(b.price("kms-key"))).Note = "bucket keys: one request in a hundred asks KMS"
	default:
		b.pay("KMS", all.times(monthSeconds, b.price("kms-request")).plus(b.price("kms-key")))
	}
}

// transfer is what crosses zones and gateways.
func (b *biller) transfer() {
	w := b.w
	b.pay("records across zones", num("0", "GB")).Note = "zones meet in the object store only (I6), which charges nothing within a region"
	batches, _ := b.quantity("batches", "batches/s", 0, b.wire.times(num("1048576", "B")).over(count(w.BatchBytes, "B")))
	zones, others := count(int64(w.Zones), ""), count(int64(w.Zones-1), "")
	perBatch := count(commitBytes, "B").times(others).over(zones).
		plus(count(commitBytes, "B").times(others)).
		plus(count(logBytes, "B").times(count(int64(min(w.ControlReplicas, w.Zones)-1), "")))
	b.pay("control plane across zones", batches.times(perBatch).times(monthSeconds).over(num("1000000000", "B/GB")).times(b.price("cross-zone"))).
		Note = "a batch's entry in its submission, in a notice to each other zone, and in the copies of the log"
	if w.Endpoint == EndpointGateway {
		b.pay("way to the object store", num("0", "GB")).Note = "gateway endpoint"
		return
	}
	hedged := rounded(1+w.HedgedPuts, 4, "hedged")
	rewritten := b.wire.times(several(max(w.Rewrites, 0), "time"))
	bytes := b.wire.times(hedged).plus(b.readBytes(), rewritten, b.rereads())
	b.pay("way to the object store", bytes.times(monthSeconds).over(num("1024", "")).times(b.price("nat-gb")).
		plus(zones.times(b.price("nat-hour"), month730))).Note = "NAT gateways; a gateway endpoint costs nothing"
}

// storage is what retention keeps, and what waits for its deletion.
func (b *biller) storage() {
	w := b.w
	kept := rounded(w.Retention.Seconds(), 0, "s").plus(count(int64(graceSeconds*(1+max(w.Rewrites, 0))), "s"))
	stored, _ := b.quantity("stored", "GiB", 1, b.wire.times(kept).over(num("1024", "")))
	name, copies := "s3-storage", num("1", "")
	if w.Store == S3Express {
		name, copies = "express-storage", count(int64(w.Copies), "copies")
	}
	b.pay("storage", b.copied(stored, copies).times(b.price(name)))
}

// totals sums up; storage was added last.
func (b *biller) totals() {
	b.t.own("without storage", USDMonth, 2, total(b.money[:len(b.money)-1]...))
	all := *b.t.own("total", USDMonth, 2, total(b.money...))
	for _, per := range []struct {
		name string
		rate Expr
	}{{"per GiB written", b.written()}, {"per GiB on the wire", b.wire}} {
		b.t.own(per.name, "USD/GiB", 6, dollars(all.Shown(), 2).over(per.rate.times(monthSeconds)).times(num("1024", "")))
	}
}

func (b *biller) notes(cpu catalog.CPU) []string {
	w := b.w
	notes := []string{
		fmt.Sprintf("CPU: shape %s (%s), %s CPU-s/GiB produced and %s fetched, measured (%s); %s read from the store, not measured: the floor of produce. %v of CPU and %v of network stay free at the peak.",
			cpu.Name, cpu.What, cpu.Produce, cpu.Fetch, cpu.Source, cpu.Get, percent(w.CPUHeadroom), percent(w.NetworkHeadroom)),
		"Requests are by formulas, which bench/requests holds to the code itself (bench/results/2026-11-24-requests.md); storage is at the price of the first 50 TB.",
	}
	if w.Sharing == ShareZone {
		notes = append(notes, "Agents of a zone share writers and caches; --sharing agent is what each for itself would cost.")
	}
	if w.Store == S3Express && w.Copies == 1 {
		notes = append(notes, "A directory bucket lives in one zone: --express-copies 2 keeps every bundle in another one too.")
	}
	return notes
}

func percent(share float64) string { return fmt.Sprintf("%v %%", math.Round(share*100)) }
