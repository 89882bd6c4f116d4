package load

import (
	"runtime"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestQuota(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  float64 // 0: none
	}{
		"not linux": {nil, 0},
		"version 2 in a namespace": {map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n",
		}, 1.5},
		"version 2 without a quota": {map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n",
		}, 0},
		"the tightest of the cgroups around it": {map[string]string{
			"proc/self/cgroup":            "0::/a/b\n",
			"sys/fs/cgroup/a/b/cpu.max":   "800000 100000\n",
			"sys/fs/cgroup/a/cpu.max":     "200000 50000\n",
			"sys/fs/cgroup/other/cpu.max": "1000 50000\n",
		}, 4},
		"version 1": {map[string]string{
			"proc/self/cgroup":                     "4:memory:/m\n3:cpu,cpuacct:/a\n2:cpuset:/\n",
			"sys/fs/cgroup/cpu/a/cpu.cfs_quota_us": "50000\n", "sys/fs/cgroup/cpu/a/cpu.cfs_period_us": "100000\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
		}, 0.5},
		"version 1 by its name outside of the container": {map[string]string{
			"proc/self/cgroup":                   "3:cpu,cpuacct:/docker/0123\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "300000\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
		}, 3},
		"both versions": {map[string]string{
			"proc/self/cgroup":                     "3:cpu:/a\n0::/b\n",
			"sys/fs/cgroup/cpu/a/cpu.cfs_quota_us": "300000\n", "sys/fs/cgroup/cpu/a/cpu.cfs_period_us": "100000\n",
		}, 3},
		"broken": {map[string]string{
			"proc/self/cgroup": "0\n0::/\n0::../../x\n", "sys/fs/cgroup/cpu.max": "-5 0\n",
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			files := fstest.MapFS{}
			for file, text := range c.files {
				files[file] = &fstest.MapFile{Data: []byte(text)}
			}
			got, ok := quota(files)
			require.Equal(t, c.want, got)
			require.Equal(t, c.want != 0, ok)
		})
	}
}

func TestProcess(t *testing.T) {
	cores := processCores()
	require.Positive(t, cores)
	require.LessOrEqual(t, cores, float64(runtime.GOMAXPROCS(0)))
	before := processCPU()
	for began := time.Now(); processCPU()-before < 5*time.Millisecond; {
		require.Less(t, time.Since(began), 10*time.Second, "work costs CPU")
	}
}
