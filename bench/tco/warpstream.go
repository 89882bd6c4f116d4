package tco

const warpStreamPost = "WarpStream, Public Benchmarks and TCO Analysis, March 2024"

// Days of 30 a month, as WarpStream's and AutoMQ's Azure bill have them, and hours of a twelfth of a year, as AutoMQ's
// white paper and Amazon's calculator have them.
var (
	day      = num("24", "h")
	month    = num("30", "days")
	month720 = num("720", "h")
	month730 = num("730", "h")
	seconds  = num("86400", "s")
	warpGBs  = num("0.2", "GB/s")
	two      = num("2", "")
	three    = num("3", "")
)

// warpStream is the bill of WarpStream's 1 GiB/s benchmark.
func (b *book) warpStream() Table {
	t := Table{
		ID: "warpstream", Title: "WarpStream, 1 GiB/s: 6 x m6in.4xlarge, 138 PUT/s, 490 GET/s; a month of 30 days",
		Source: warpStreamPost, Prices: b.use("warpstream-2024"),
	}
	instances := *t.published("instances", USDMonth, "3031", num("6", "").times(b.price("m6in.4xlarge"), day, month))
	gets := *t.published("GET", USDMonth, "508", num("490", "GET/s").times(b.price("s3-get"), seconds, month))
	puts := *t.published("PUT", USDMonth, "1788", num("138", "PUT/s").times(b.price("s3-put"), seconds, month))
	l := t.published("infrastructure", USDMonth, "5327", total(instances, gets, puts))
	l.Note = "the sum of the figures as printed; unrounded it is $5,327.86. Storage is not in this bill"
	infrastructure := *l
	fee := *t.given("control-plane fee", "7541", "the post gives no price list for it")
	t.published("total", USDMonth, "12868", total(infrastructure, fee))
	return t
}

// selfHosted is the same post's best case for Apache Kafka.
func (b *book) selfHosted() Table {
	t := Table{
		ID: "kafka", Title: "Apache Kafka, self-hosted, best case: 200 MB/s on the wire, 3 zones; a month of 30 days",
		Source: warpStreamPost, Prices: b.use("warpstream-2024"),
	}
	clients := *t.published("clients to leaders in another zone", USDMonth, "6912",
		warpGBs.times(b.price("cross-zone"), two).over(three).times(seconds, month))
	l := t.published("replication to two zones", USDMonth, "20376", warpGBs.times(b.price("cross-zone"), two, seconds, month))
	l.because(Slip, "two digits changed places: the post's own formula gives 20,736")
	replication := *l
	l = t.published("network", USDMonth, "27288", total(clients, replication))
	l.because(Carried, "6,912 + 20,376; without the slip 27,648")
	network := *l
	for _, c := range []struct{ days, all, rest string }{{"3", "54591", "27303"}, {"7", "94134", "66846"}} {
		rest := t.add(Line{
			Name: "brokers and disks, " + c.days + " days", Unit: USDMonth, Because: Given, Computed: num(c.rest, "").value,
			Formula: "given: $" + grouped(c.all) + " - $27,288",
			Note:    "the post's total less its network line; what machines and disks these are it does not say",
		})
		held := *rest
		l = t.published("total, "+c.days+" days of retention", USDMonth, c.all, total(network, held))
		l.because(Carried, "has the network's slip of $360 in it, unless the post summed with the right figure and brokers and disks are $360 less")
	}
	return t
}
