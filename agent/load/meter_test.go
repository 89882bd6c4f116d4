package load

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// machine is what a Meter measures, in a bubble; what it does in each second is set.
type machine struct {
	*Meter
	mu                     sync.Mutex // held while what the Meter reads changes: a timer alone orders nothing
	cores                  float64
	cpu, in, out, produced float64 // in each second: CPUs, bytes
	used                   time.Duration
	received, sent, taken  float64
	held                   [2]int64
}

const mib = 1 << 20

// measured runs fn beside a Meter of a machine with 4 CPUs and 100 MiB a second.
func measured(t *testing.T, registry prometheus.Registerer, fn func(m *machine)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := &machine{cores: 4}
		budget := func(i int, bound int64) func() (int64, int64) {
			return func() (int64, int64) { defer m.lock()(); return m.held[i], bound }
		}
		var err error
		m.Meter, err = New(Config{
			CPU:          func() time.Duration { defer m.lock()(); return m.used },
			Cores:        func() float64 { defer m.lock()(); return m.cores },
			Network:      func() (int64, int64) { defer m.lock()(); return int64(m.received), int64(m.sent) },
			Produced:     func() int64 { defer m.lock()(); return int64(m.taken) },
			NetworkLimit: 100 * mib,
			Budgets:      []Budget{{"a", budget(0, 1000)}, {"b", budget(1, 10)}, {"none", func() (int64, int64) { return 5, 0 }}},
			TakesBatches: func() bool { return true },
			Registerer:   registry,
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		synctest.Wait()
		fn(m)
		cancel()
		require.NoError(t, <-ended)
	})
}

// lock locks mu and gives what unlocks it.
func (m *machine) lock() (unlock func()) {
	m.mu.Lock()
	return m.mu.Unlock
}

// set changes what the Meter reads.
func (m *machine) set(change func()) {
	defer m.lock()()
	change()
}

// pass lets seconds pass, each with what is set.
func (m *machine) pass(seconds int) {
	for range seconds {
		m.set(m.work)
		time.Sleep(Interval)
		synctest.Wait()
	}
}

// work is what one second uses.
func (m *machine) work() {
	m.used += time.Duration(m.cpu * float64(time.Second))
	m.received += m.in
	m.sent += m.out
	m.taken += m.produced
}

func TestMeter_SharesOfWhatMayBeUsed(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	measured(t, reg, func(m *machine) {
		require.Zero(t, m.Load().Utilization(), "nothing was measured yet")
		m.cpu, m.in, m.out, m.produced = 1, 20*mib, 50*mib, 15*mib
		m.set(func() { m.held = [2]int64{250, 1} })
		m.pass(1)
		require.InDelta(t, 0.25, m.Load().Cpu, 1e-9, "the first second counts at once")
		m.pass(10)
		l := m.Load()
		require.InDelta(t, 0.25, l.Cpu, 1e-9)
		require.InDelta(t, 0.5, l.Network, 1e-9, "the busier direction, which has the limit for itself")
		require.InDelta(t, 0.25, l.Buffers, 1e-9, "the fullest")
		require.InDelta(t, 15*mib, l.ProduceBytesPerSecond, 1)
		require.InDelta(t, 0.5, l.Utilization(), 1e-9)
		require.True(t, l.TakesBatches)
		require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP freshet_agent_load_ratio Share of what the agent may use that it used in the last 10 s: CPU, the network's busier direction (0 without --network-limit), the fullest memory budget at which clients wait.
# TYPE freshet_agent_load_ratio gauge
freshet_agent_load_ratio{resource="buffers"} 0.25
freshet_agent_load_ratio{resource="cpu"} 0.25
freshet_agent_load_ratio{resource="network"} 0.5
# HELP freshet_agent_utilization_ratio The largest of the shares in freshet_agent_load_ratio; autoscalers should aim at 0.6.
# TYPE freshet_agent_utilization_ratio gauge
freshet_agent_utilization_ratio 0.5
`)))
		m.set(func() { m.held[1] = 10 })
		m.pass(10)
		require.InDelta(t, 10.0/11+0.25/11, m.Load().Buffers, 1e-9)
	})
}

func TestMeter_AveragesOverTenSeconds(t *testing.T) {
	measured(t, nil, func(m *machine) {
		m.pass(60)
		m.cpu, m.produced = 4, 10*mib
		for second := 1; second <= 10; second++ {
			m.pass(1)
			require.InDelta(t, float64(second)/10, m.Load().Cpu, 1e-9)
			require.InDelta(t, float64(second)*mib, m.Load().ProduceBytesPerSecond, 1)
		}
		m.cpu = 0
		m.pass(5)
		require.InDelta(t, 0.5, m.Load().Cpu, 1e-9)
		m.pass(5)
		require.Zero(t, m.Load().Cpu)
	})
}

// The quota of a cgroup can change while the process runs, and lets it use more for a moment.
func TestMeter_CoresChange(t *testing.T) {
	measured(t, nil, func(m *machine) {
		m.cpu = 2
		m.pass(20)
		require.InDelta(t, 0.5, m.Load().Cpu, 1e-9)
		m.set(func() { m.cores = 2 })
		m.pass(5)
		require.InDelta(t, 20.0/30, m.Load().Cpu, 1e-9, "of 5 s with 4 CPUs and 5 s with 2")
		m.pass(5)
		require.InDelta(t, 1, m.Load().Cpu, 1e-9)
		m.cpu = 2.2
		m.pass(10)
		require.InDelta(t, 1, m.Load().Cpu, 1e-9)
	})
}

// A tick that comes late, as after a pause of the process, makes nothing up.
func TestMeter_LateTicks(t *testing.T) {
	m, err := New(Config{CPU: func() time.Duration { return 0 }, Cores: func() float64 { return 1 }})
	require.NoError(t, err)
	at := time.Unix(1000, 0)
	used := time.Duration(0)
	m.cfg.CPU = func() time.Duration { return used }
	m.measure(at)
	m.measure(at)
	require.Zero(t, m.Load().Cpu, "no time has passed")
	used = 30 * time.Second
	m.measure(at.Add(time.Minute))
	require.InDelta(t, 0.5, m.Load().Cpu, 1e-9)
}

func TestConfig_Validate(t *testing.T) {
	_, err := New(Config{NetworkLimit: -1, Budgets: []Budget{{}}})
	require.ErrorContains(t, err, "network limit")
	require.ErrorContains(t, err, "memory budget")
}

func TestMeter_UnknownLimitIsNoShare(t *testing.T) {
	n := int64(0)
	m, err := New(Config{Network: func() (int64, int64) { n += 1 << 40; return n, n }})
	require.NoError(t, err)
	m.measure(time.Unix(1000, 0))
	m.measure(time.Unix(1001, 0))
	require.Zero(t, m.Load().Network)
}
