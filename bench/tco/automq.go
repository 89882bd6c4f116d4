package tco

const automqPaper = "AutoMQ, Benchmark AutoMQ vs. Apache Kafka (white paper)"

// storedElastic is the data of the elastic day: a base of 40 MiB/s with two peaks, an hour wide each, whose tops are 760
// and 1,160 MiB/s above it.
func storedElastic() Expr {
	base := num("40", "MiB/s").times(num("90000", "s"))
	hour := num("3600", "s")
	first := num("760", "MiB/s").times(hour).over(num("2", ""))
	second := num("1160", "MiB/s").times(hour).over(num("2", ""))
	return base.plus(first, second).over(num("1024", ""))
}

const storedElasticNote = "40 MiB/s for 25 hours and two triangles to 800 and 1,200 MiB/s, in GiB that are billed as GB; the 24 hours of the curve " +
	"are 6,750 GiB, and 140.625 more are in the figure: an hour of base load, or half an hour of the mean"

// elasticKafka is the white paper's elastic day on Apache Kafka.
func (b *book) elasticKafka() Table {
	t := Table{
		ID: "automq-kafka", Title: "Apache Kafka, AutoMQ's elastic day: 23 x r6in.large, sized for the peak; a month of 730 hours",
		Source: automqPaper, Prices: b.use("automq-whitepaper"),
	}
	machine, disk := b.price("r6in.large"), b.price("gp3")
	l := t.published("controllers", USDMonth, "127.26", num("1", "").times(machine, month730))
	l.Note = "the paper gives the sum alone; it is what one r6in.large costs"
	controllers := *l
	brokers := *t.published("brokers", USDMonth, "2927.00", num("23", "").times(machine, month730))
	l = t.published("stored data", "GB", "6890.625", storedElastic())
	l.Note = storedElasticNote
	stored := *l
	ebs := *t.published("EBS, 3 replicas, 80 % full", USDMonth, "2067.19", dec(stored.Shown(), "GB").times(num("3", "")).over(num("0.8", "")).times(disk))
	l = t.published("EBS bandwidth", USDMonth, "28.52", num("31", "MB/s").times(num("23", ""), b.price("gp3-throughput")))
	l.Note = "31 MB/s a broker above the 125 that gp3 includes: 1,200 x 3 / 23 - 125 = 31.5, cut"
	bandwidth := *l
	t.published("total", USDMonth, "5149.97", total(controllers, brokers, ebs, bandwidth))
	return t
}

// elasticAutoMQ is the same day on AutoMQ.
func (b *book) elasticAutoMQ() Table {
	t := Table{
		ID: "automq", Title: "AutoMQ, the elastic day, scaled automatically; a month of 730 hours",
		Source: automqPaper, Prices: b.use("automq-whitepaper"),
	}
	controllers := *t.published("controllers", USDMonth, "127.26", num("1", "").times(b.price("r6in.large"), month730))
	brokers := *t.given("brokers", "74.20",
		"read off a bill; on demand it would be 74.20 / 0.17433 = 425.6 hours, 0.58 of one machine, so these are spot prices")
	ebs := *t.given("EBS", "0.43", "read off a bill: 0.43 / 0.08 = 5.4 GB-months of write-ahead log")
	l := t.published("stored data", "GB", "6890.625", storedElastic())
	l.Note = storedElasticNote
	storage := *t.published("S3 storage", USDMonth, "158.48", dec(l.Shown(), "GB").times(b.price("s3-storage")))
	api := *t.given("S3 API", "98.47", "numbers of requests are not published: it pays for 19.7 million PUTs, or more GETs than that")
	l = t.published("total", USDMonth, "458.84", total(controllers, brokers, ebs, storage, api))
	sum := *l
	t.published("Apache Kafka's bill over this one", "times", "11.2", num("5149.97", "").over(dec(sum.Shown(), "")))
	return t
}

// aku is AutoMQ's unit of capacity, and what its performance tests take of it.
func (b *book) aku() Table {
	t := Table{
		ID: "aku", Title: "AutoMQ's capacity unit (AKU) and its performance tests: 6 AKU = 3 x r6i.large",
		Source: "AutoMQ, documentation: performance test tutorial and billing", Prices: b.use("aku"),
	}
	mib := num("1048576", "B/MiB")
	l := t.published("tail read, in", "MiB/s", "80", num("1600", "msg/s").times(num("52224", "B")).over(mib))
	tail := dec(l.Computed, "MiB/s")
	l = t.published("catch-up, in", "MiB/s", "50", num("800", "msg/s").times(num("65536", "B")).over(mib))
	catchUp := dec(l.Computed, "MiB/s")
	l = t.published("catch-up, backlog", "GiB", "30", num("600", "s").times(catchUp).over(num("1024", "")))
	l.because(Rounding, "the tutorial says about 30")
	t.published("an AKU, in and out at 1:1", "MiB/s", "40", num("20", "MiB/s").plus(num("20", "MiB/s")))
	t.published("an AKU, in and out at 1:3", "MiB/s", "50", num("12.5", "MiB/s").plus(num("12.5", "MiB/s").times(num("3", ""))))
	t.own("AKU the tail read needs", "AKU", 2, most(tail.over(num("20", "")), num("1600", "requests/s").over(num("800", "")),
		num("1280", "partitions").over(num("1125", "")))).Note = "batch.size=0: a request for each record"
	t.own("AKU the catch-up needs, 3 groups", "AKU", 2, most(catchUp.over(num("12.5", "")), num("800", "requests/s").over(num("800", "")),
		num("1280", "partitions").over(num("1125", ""))))
	machines := *t.own("3 x r6i.large", USDMonth, 2, num("3", "").times(b.price("r6i.large"), month730))
	t.own("machines for one AKU", USDMonth, 2, dollars(machines.Shown(), 2).over(num("6", "AKU")))
	return t
}
