package tco

import "github.com/shopspring/decimal"

// azure is AutoMQ's bill on Azure, by month and by hour.
func (b *book) azure() Table {
	t := Table{
		ID: "automq-azure", Title: "AutoMQ on Azure, 1,040 MiB/s: 15 x D4as v5, zone-redundant disks, 7 days; a month of 720 hours",
		Source: "AutoMQ, AutoMQ Integration on Azure: Benchmark Insights", Prices: b.use("automq-azure"),
	}
	broker := b.price("d4as-v5").times(month720).plus(b.price("p20-zrs"))
	l := t.published("brokers", USDMonth, "3510", num("15", "").times(dollars(broker.value.Round(0), 0)))
	l.Note = "a broker with its disk is " + broker.text + " = $" + broker.value.StringFixed(2) + ", rounded to the dollar before it is multiplied. " +
		"The post names neither region nor unit prices; these are East US"
	months := []Line{
		*l,
		*t.given("blob API", "1101", "neither requests nor unit price are published"),
		*t.given("blob storage, 7 days", "12029", "tiers and redundancy are not published: $0.0196 for each of 1,040 MiB/s x 604,800 s / 1,024 = 614,250 GiB"),
		*t.published("cross-zone", USDMonth, "0", num("0", "GB")),
		*t.given("vendor", "5804", "the price list is not published"),
	}
	t.published("total", USDMonth, "22509", total(months...)).
		because(Slip, "$65 more than its items; the hourly total is the sum of its own")
	hours := make([]Line, len(months))
	for i, figure := range []string{"4.87", "1.53", "16.70", "0", "8.06"} {
		l := t.published(months[i].Name+", an hour", "USD/hour", figure, dollars(months[i].Published.Decimal, 0).over(month720))
		switch i {
		case 0:
			l.because(Rounding, "4.875, cut")
		case 2:
			l.because(Rounding, "16.707, cut, where 1.529 is rounded up")
		}
		hours[i] = *l
	}
	t.published("total, an hour", "USD/hour", "31.16", total(hours...)).
		because(Carried, "the sum of the items as the post prints them; rounded alike they are 31.18")
	t.own("total of the items, an hour", "USD/hour", 2, itemsOf(months).over(month720)).Note = "unrounded 31.17; the monthly total as printed would be 31.26"
	return t
}

func itemsOf(lines []Line) Expr {
	sum := decimal.Zero
	for _, l := range lines {
		sum = sum.Add(l.Published.Decimal)
	}
	return dollars(sum, 0)
}
