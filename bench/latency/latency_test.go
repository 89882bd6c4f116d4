package latency

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/bench/tco/catalog"
)

func TestRun_EveryRecordWaitsForItsPut(t *testing.T) {
	var out bytes.Buffer
	chart := filepath.Join(t.TempDir(), "chart.html")
	all, err := Run(t.Context(), Config{
		Models: []string{ModelExpress}, Loads: []int64{0, mib}, Producers: 8,
		WarmUp: 300 * time.Millisecond, Duration: time.Second, Puts: 1, Chart: chart, Out: &out,
	})
	require.NoError(t, err)
	require.Len(t, all, 2)
	for _, f := range all {
		require.Positive(t, f.Records)
		require.Equal(t, f.Load > 0, f.Floor.P50 > time.Millisecond, "a load waits for PUTs")
		require.Greater(t, f.PutP50, time.Millisecond, "the model's store is slow")
		require.Greater(t, f.Produce.P99, f.PutP50, "no answer before the record is durable (I1)")
		require.Greater(t, f.EndToEnd.P99, f.PutP50, "and no read")
		require.LessOrEqual(t, f.Seals, 2*f.Budget, "the budget, and a second of it at once")
		require.Positive(t, f.USDPuts)
		require.Regexp(t, `s3-express +40 +`+f.load()+` +`, out.String())
	}
	require.Positive(t, all[1].Rate)
	t.Logf("%.0f bytes a second of the %d asked for", all[1].Rate, mib)
	page, err := os.ReadFile(chart)
	require.NoError(t, err)
	require.Contains(t, string(page), "<svg")
	require.Contains(t, string(page), "1 MiB/s, p99")
	t.Log("\n" + out.String())
}

func TestConfig_ReportsAllFaults(t *testing.T) {
	_, err := Run(t.Context(), Config{Models: []string{"tape"}, Budgets: []float64{-1}, Loads: []int64{5}, RecordBytes: 8, Chart: "x.gif"})
	for _, fault := range []string{`"tape"`, "budget of -1", "5 bytes a second", "8 bytes hold no number", `"x.gif"`} {
		require.ErrorContains(t, err, fault)
	}
}

func TestFigures_Bounds(t *testing.T) {
	msec := time.Millisecond
	idle := Figures{Point: Point{Model: ModelStandard, Budget: 4}, PutP50: 60 * msec, Seals: 2}
	require.Equal(t, 90*msec, idle.Bounds().Produce.P50)
	loaded := Figures{Point: Point{Model: ModelStandard, Budget: 4, Load: mib}, PutP50: 100 * msec, Seals: 4}
	require.Equal(t, Bounds{Quantiles{245 * msec, 500 * msec}, Quantiles{500 * msec, 900 * msec}}, loaded.Bounds())
	express := Figures{Point: Point{Model: ModelExpress, Budget: 40, Load: mib}, PutP50: 8 * msec, Seals: 40}
	require.Equal(t, Quantiles{40 * msec, 80 * msec}, express.Bounds().Produce)
	require.Equal(t, "91.0 (90.0)!", beside(91*msec, idle.Bounds().Produce.P50))
}

func TestPrices_OfAMonth(t *testing.T) {
	prices, err := catalog.LoadPrices("")
	require.NoError(t, err)
	standard, err := priceOf(prices, ModelStandard)
	require.NoError(t, err)
	puts, bytes := standard.month(4, mib)
	require.InDelta(t, 52.56, puts, 0.01, "4 x 2,628,000 x 0.000005")
	require.Zero(t, bytes)
	express, err := priceOf(prices, ModelExpress)
	require.NoError(t, err)
	puts, bytes = express.month(40, 10*mib)
	require.InDelta(t, 118.79, puts, 0.01, "40 x 2,628,000 x 0.00000113")
	require.InDelta(t, 82.13, bytes, 0.01, "10 / 1,024 x 2,628,000 x 0.0032")
}

func TestLedger_FindsWhatIsWrong(t *testing.T) {
	record := func(l *ledger, partition int32, offset int64) *kgo.Record {
		r := &kgo.Record{Partition: partition, Offset: offset, Value: make([]byte, headBytes)}
		number, err := l.number(1)
		require.NoError(t, err)
		l.head(r.Value, number)
		return r
	}
	found := func(r *kgo.Record, offset int64) kgo.Fetches {
		copied := *r
		copied.Offset = offset
		return kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: topic, Partitions: []kgo.FetchPartition{{Records: []*kgo.Record{&copied}}}}}}}
	}
	for name, c := range map[string]struct {
		act   func(l *ledger, told *tally, r *kgo.Record)
		fault string
	}{
		"all well":         {func(l *ledger, told *tally, r *kgo.Record) { told.acknowledged(r, nil); l.read(found(r, 7)) }, ""},
		"not acknowledged": {func(l *ledger, told *tally, r *kgo.Record) { l.read(found(r, 7)) }, "acknowledged at nowhere"},
		"lost":             {func(l *ledger, told *tally, r *kgo.Record) { told.acknowledged(r, nil) }, "read at nowhere"},
		"misplaced":        {func(l *ledger, told *tally, r *kgo.Record) { told.acknowledged(r, nil); l.read(found(r, 8)) }, "read at partition 3 offset 8"},
		"told twice": {func(l *ledger, told *tally, r *kgo.Record) {
			told.acknowledged(r, nil)
			told.acknowledged(r, nil)
			l.read(found(r, 7))
		}, "acknowledged at partition 3 offset 7 and"},
		"doubled": {func(l *ledger, told *tally, r *kgo.Record) {
			told.acknowledged(r, nil)
			l.read(found(r, 7))
			l.read(found(r, 9))
		}, "at partition 3 offset 7 and partition 3 offset 9"},
	} {
		l := newLedger(0)
		r := record(l, 3, 7)
		c.act(l, l.producer(), r)
		if c.fault == "" {
			require.NoError(t, l.check(), name)
			continue
		}
		require.ErrorIs(t, l.check(), errRecords, name)
		require.ErrorContains(t, l.check(), c.fault, name)
	}
}

func TestPuts_Floor(t *testing.T) {
	var began time.Time
	at := func(ms int) time.Time { return began.Add(time.Hour + time.Duration(ms)*time.Millisecond) }
	for name, c := range map[string]struct {
		bundles  []stored
		p50, p99 float64 // ms
		leaders  []int32 // nil: of one port
	}{
		"no PUT":                  {nil, 0, 0, nil},
		"even":                    {[]stored{{at(0), at(50)}, {at(100), at(150)}, {at(200), at(250)}}, 100, 149, nil},
		"unfinished, too":         {[]stored{{at(0), at(50)}, {at(100), at(150)}, {at(150), time.Time{}}, {time.Time{}, at(20)}}, 100, 149, nil},
		"waits for answers":       {[]stored{{at(200), at(210)}, {at(100), at(400)}, {at(0), at(10)}}, 300, 399, nil},
		"not for others":          {[]stored{{at(0), at(10)}, {at(50), at(60)}, {at(100), at(110)}, {at(150), at(400)}, {at(200), at(210)}}, 43, 298, nil},
		"answers of another port": {[]stored{{at(200), at(210)}, {at(100), at(400)}, {at(0), at(10)}}, 109, 398, []int32{1, 2}},
	} {
		p := puts{bundles: c.bundles}
		if c.leaders == nil {
			c.leaders = []int32{1}
		}
		f := p.floor(c.leaders)
		require.InDelta(t, c.p50, f.P50.Seconds()*1000, 2, name)
		require.InDelta(t, c.p99, f.P99.Seconds()*1000, 2, name)
	}
}

func TestQuantile(t *testing.T) {
	require.Zero(t, quantile(nil, 0.5))
	var ds []time.Duration
	for i := range 101 {
		ds = append(ds, time.Duration(100-i))
	}
	require.EqualValues(t, 50, quantile(ds, 0.5))
	require.EqualValues(t, 99, quantile(ds, 0.99))
	require.EqualValues(t, 100, quantile(ds, 1))
}
