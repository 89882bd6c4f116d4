package agent

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/freshet-io/freshet/agent/edge"
)

func TestDivide(t *testing.T) {
	b, err := divide(1000 << 20)
	require.NoError(t, err)
	require.Equal(t, budgets{
		live: 340 << 20, catchUp: 100 << 20, slabs: 180 << 20, produceFrames: 60 << 20, recoded: 10 << 20, otherFrames: 20 << 20, unsent: 100 << 20,
		jobs: 30 << 20, fetches: 30 << 20, sessions: 10 << 20, extents: 20 << 20 / extentBytes,
	}, b)
	require.Equal(t, int64(250<<20), b.slabs+b.produceFrames+b.recoded, "write buffers are 25 % of the limit")
	require.LessOrEqual(t, b.live+b.catchUp+b.slabs+b.produceFrames+b.recoded+b.otherFrames+b.unsent+b.jobs+
		b.fetches+b.sessions+int64(b.extents)*extentBytes, int64(900<<20),
		"at least a tenth is left for everything else")

	_, err = divide(minMemory - 1)
	require.ErrorContains(t, err, "below the least")

	b, err = divide(64 << 30)
	require.NoError(t, err)
	require.Equal(t, maxExtents, b.extents)
}

func TestConfig_EffectiveMaxConnections(t *testing.T) {
	for _, c := range []struct {
		set           int
		memory, files int64
		want          int
	}{
		{memory: 128 << 20, want: 1024},
		{memory: 1 << 30, files: 1 << 20, want: 8192},
		{memory: 8 << 30, want: edge.DefaultMaxConnections},
		{memory: 8 << 30, files: 1024, want: 768},
		{set: 50_000, memory: 128 << 20, files: 1024, want: 50_000},
	} {
		cfg := Config{MaxConnections: c.set, MemoryLimit: c.memory, OpenFiles: c.files}
		require.Equal(t, c.want, cfg.EffectiveMaxConnections(), "%+v", c)
	}
}

func TestConfig_WarnsOfFewOpenFiles(t *testing.T) {
	for _, c := range []struct {
		set   int
		files int64
		warns int
	}{
		{files: 1 << 20}, {files: 0}, {files: 8192, warns: 1}, {set: 7000, files: 8192, warns: 1}, {set: 6000, files: 8192},
	} {
		core, logs := observer.New(zap.WarnLevel)
		cfg := Config{MaxConnections: c.set, MemoryLimit: 8 << 30, OpenFiles: c.files, Log: zap.New(core)}
		cfg.warnOfFiles()
		require.Equal(t, c.warns, logs.Len(), "%+v", c)
	}
}
